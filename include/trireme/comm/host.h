// Host: communication between the hosts of all ranks, for decisions, whichever device trains.
#pragma once

#include "trireme/comm/mesh.h"

namespace trireme {

/// The communicators between hosts, and the CPU stream that they use.
struct Host {
  Mesh& mesh;
  Stream& stream;

  Communicator& world() const { return mesh.world(); }
  int rank() const { return mesh.rank(); }
  /// Collective over the world, on memory of the host.
  void all_reduce(Elements data, Reduction reduction) const {
    world().all_reduce(data, reduction, stream);
  }
  void broadcast(Elements data, int root) const { world().broadcast(data, root, stream); }
};

}  // namespace trireme
