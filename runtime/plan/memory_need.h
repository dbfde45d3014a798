// MemoryNeed: what a rank will allocate, known in advance.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// Bytes of one rank.
struct MemoryNeed {
  Index parameters = 0;  // as ops read them, and f32 masters
  Index masters = 0;     // the part of `parameters` that are masters beside a compute copy
  Index gradients = 0, optimizer = 0, activations = 0, constants = 0;
  Index checks = 0;                   // for silent corruption
  Index inputs = 0;                   // data of a global batch
  Index outputs = 0;                  // Model::result of a global batch
  Index checkpoint = 0, loading = 0;  // for saves, and while a checkpoint is read
  Index snapshots = 0;                // in shared memory of the node, which outlives the job
  Index products = 0;                 // what the stream that computes takes for itself

  /// All of it starts at multiples of this.
  static Index aligned(Index bytes);
  /// On the device, as one: parameters, gradients, state of the optimizer, activations, constants,
  /// checks.
  Index arena() const;
  Index device() const { return arena() + products; }
  /// What libraries (oneDNN, MPI) take while training, beyond what they have when memory is looked
  /// at: an estimate. On one rank of a CPU 20 to 22 MiB were measured, whatever the model.
  static constexpr Index libraries = Index{32} << 20;
  /// Additional memory on the host.
  Index host() const { return inputs + outputs + checkpoint + loading + snapshots + libraries; }
  Index total() const { return device() + host(); }
  std::string describe() const;
};

}  // namespace trireme
