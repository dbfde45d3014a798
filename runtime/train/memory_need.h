// MemoryNeed: what a rank is going to allocate, known before it does; and whether all ranks together can.
#pragma once

#include <string>

#include "runtime/train/trainer_state.h"

namespace trireme {

/// Bytes of this rank.
struct MemoryNeed {
  Index parameters, gradients, optimizer, activations, inputs, checkpoint, loading, products;
  Index constants;  // on the device since tracing, so no part of what it is asked for

  /// All of it starts at multiples of this.
  static Index aligned(Index bytes);
  /// On the device, as one.
  Index arena() const;
  /// With what the stream that computes takes for itself.
  Index device() const { return arena() + products; }
  /// What libraries (oneDNN, MPI) take while training, beyond what they have when memory is looked
  /// at: an estimate. On one rank of a CPU 20 to 22 MiB were measured, whatever the model.
  static constexpr Index libraries = Index{32} << 20;
  /// Besides, on the host.
  Index host() const { return inputs + checkpoint + loading + libraries; }
  Index total() const { return device() + host(); }
  std::string describe() const;
};

/// Options that would make a rank need less and are not in force yet. `data_size`: of the mesh;
/// `checkpoint`: memory is planned for saves.
std::string memory_remedies(const Options& options, const KeyValues& configuration,
                            int data_size, bool checkpoint);

MemoryNeed memory_need(const Trainer::State& state);

/// Collective. Throws: ConfigurationError on all ranks when a node or a GPU has less memory free than its ranks need. Sets
/// State::node_ranks.
void check_memory(Trainer::State& state);

}  // namespace trireme
