// The norm of all gradients, and what is decided by it: clipping, and skipping a step that is not
// finite. Every logical element counts once, whatever is replicated, tied or sharded.
#pragma once

#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/optim/flat_parameters.h"

namespace trireme {

class GradientNorm {
 public:
  static constexpr Index scratch_bytes = 64;
  /// `scratch`: scratch_bytes of device memory, aligned to 64; borrowed.
  GradientNorm(const FlatParameters& flat, Communicator& world, Stream& stream, std::byte* scratch);
  /// Collective over the world, after GradientReducer::finish(): the 2-norm in fp64, the same bits
  /// on every rank. Not finite when any gradient is not. Waits for the stream.
  double compute();

 private:
  const FlatParameters& flat_;
  Communicator& world_;
  Stream& stream_;
  double* sum_;
  std::vector<FlatRange> ranges_;
};

/// What gradients are multiplied with so that their norm is at most `max_norm`; 1 when it is, or
/// max_norm is 0 (off).
double clip_coefficient(double norm, double max_norm);

}  // namespace trireme
