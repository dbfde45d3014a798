// Mesh: the communicators of this rank for a MeshShape, and the memory in which they are fastest.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/core/mesh_shape.h"

namespace trireme {

class Mesh {
 public:
  virtual ~Mesh() = default;
  virtual const MeshShape& shape() const = 0;
  virtual int rank() const = 0;
  int coordinate(MeshShape::Along along) const { return shape().coordinate(rank(), along); }
  /// The group of a role that this rank belongs to; rank in it = coordinate(role). The first call
  /// for a role that does not span just one axis makes the group, and is collective over the world.
  Communicator& group(Role role);
  /// The group along one axis that this rank belongs to; rank in it = coordinate(axis).
  virtual Communicator& axis(Axis axis) = 0;
  virtual Communicator& world() = 0;
  /// Collective over the world: ranks that pass the same color >= 0 form a group, in the order of
  /// world rank; with color < 0 a rank joins none and gets null.
  virtual std::unique_ptr<Communicator> split(int color, const std::string& name) = 0;
  /// Collective over the world, each rank its own size: zero-filled memory aligned to 4096 in which
  /// collectives need no copies (a shared window on the node). Falls back to private memory, and
  /// says so once, where the memory file system is too small. Must not outlive the Mesh.
  virtual Buffer allocate(Index bytes) = 0;
  /// What allocate() returns on this node, for the log: "shared window of 8 ranks on node a" or why
  /// not.
  virtual std::string memory_description() const = 0;
  /// Ends every rank of the job at once, with `code`; used after one rank failed. Prints nothing.
  [[noreturn]] virtual void abort(int code) = 0;

 protected:
  /// Ends what group() has made, while what those groups use still exists. Call it in destructors.
  void end_groups() { groups_.clear(); }

 private:
  std::map<Role, std::unique_ptr<Communicator>>
      groups_;  // one per role that spans several axes, or none
};

/// Ranks as threads of this process, for tests: calls f(mesh) on each and rethrows the first error
/// after all ended (others blocked in a collective are woken with an Error). Sends wait for their
/// receives.
enum class ThreadReachable { everything, allocated };
struct ThreadTransport {
  /// Hostile: every operation is delayed and completions are reordered, by this seed; 0: off.
  std::uint64_t hostile_seed = 0;
  /// Simulates nodes of this many ranks each (the last one may have fewer); 0: one node.
  int ranks_per_node = 0;
  /// Whether collectives work in any memory of the ranks, or only in memory from Mesh::allocate (as
  /// between processes).
  ThreadReachable reach = ThreadReachable::everything;
  double timeout_s = 600;
};
void run_on_threads(const MeshShape& shape, const std::function<void(Mesh&)>& f,
                    const ThreadTransport& transport = {});

/// One rank, no transport.
std::unique_ptr<Mesh> make_self_mesh();

}  // namespace trireme
