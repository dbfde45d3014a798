// Updates of flat buffers, and what decides on them: the norm of all gradients, clipping, skipping. One call works through
// a list of ranges, and nothing here comes back to the host: a GPU's queue holds a whole step.
// AdamW: Loshchilov, Hutter 2017, arXiv:1711.05101.
#pragma once

#include <cmath>
#include <vector>

#include "trireme/core/bf16.h"
#include "trireme/core/device.h"
#include "trireme/core/macros.h"

namespace trireme {

/// Elements [begin, begin + count) of a flat buffer, in a list of such ranges. A GPU works through a range in tiles.
struct ListedRange {
  Index begin = 0, count = 0;
  Index tiles_before = 0;  // in the list: upload() sets it

  static constexpr Index tile = 4096;  // elements
  TRIREME_HD Index tiles() const { return (count + tile - 1) / tile; }
};
/// A stretch that is updated alike; it begins at `begin` in the gradients and in the compute copy.
struct UpdateRange : ListedRange {
  Index parameter_begin = 0;  // in the parameters
  Index state_begin = 0;      // in the state buffers
  double weight_decay = 0;
};

/// A list that lies on the device, or some neighbours of one. `tiles`: of these ranges.
template <class Range>
struct DeviceList {
  const Range* ranges = nullptr;
  Index count = 0, tiles = 0;
};

/// Bytes that a list takes on the device.
template <class Range>
Index list_bytes(const std::vector<Range>& ranges) {
  return (static_cast<Index>(ranges.size() * sizeof(Range)) + 63) / 64 * 64;
}
/// Numbers the tiles of a list and copies it to `memory`, list_bytes() of the device. Waits for the stream.
template <class Range>
DeviceList<Range> upload(std::vector<Range>& ranges, Stream& stream, std::byte* memory) {
  DeviceList<Range> list{reinterpret_cast<const Range*>(memory), static_cast<Index>(ranges.size())};
  for (Range& range : ranges) {
    range.tiles_before = list.tiles;
    list.tiles += range.tiles();
  }
  stream.copy(memory, ranges.data(), list.count * static_cast<Index>(sizeof(Range)));
  stream.synchronize();
  return list;
}

/// What the norm of all gradients decided, on the device.
struct StepDecision {
  double norm;              // before clipping
  double clip_coefficient;  // what gradients are multiplied with
  Index skip;               // not 0: the norm is not finite, and nothing is to be changed
};

/// So that their norm is at most `max_norm` gradients are multiplied with this; with 1 when it is, or max_norm is 0 (off).
TRIREME_HD inline double clip_coefficient(double norm, double max_norm) {
  // The small term is PyTorch's and Megatron's: it keeps the clipped norm below the limit.
  const double coefficient = max_norm / (norm + 1e-6);
  return max_norm == 0 || coefficient > 1 ? 1 : coefficient;
}
TRIREME_HD inline StepDecision decide_step(double sum_of_squares, double max_norm) {
  const double norm = std::sqrt(sum_of_squares);
  const bool finite = norm - norm == 0;
  return {norm, clip_coefficient(norm, max_norm), finite ? 0 : 1};
}

struct AdamW {
  DeviceList<UpdateRange> list;
  float* parameter;  // buffers: a range says where in each
  const float* gradient;
  float* first_moment;
  float* second_moment;
  float learning_rate, beta1, beta2, epsilon;
  float bias_correction1, bias_correction2;  // 1 - beta^step
  const StepDecision* decision;              // (1), on the device
  Bf16* compute_copy = nullptr;              // or as `gradient`: gets what was assigned, rounded
};
struct Sgd {
  DeviceList<UpdateRange> list;
  float* parameter;
  const float* gradient;
  float* momentum_buffer;  // null when momentum is 0
  float learning_rate, momentum;
  const StepDecision* decision;
  Bf16* compute_copy = nullptr;
};
/// *sum (1) = sum of x^2 over the ranges, in fp64; the order depends on the list alone.
struct SumOfSquares {
  DeviceList<ListedRange> list;
  const float* x;
  double* sum;
};
/// *decision (1) = decide_step(*sum, max_norm).
struct Decide {
  const double* sum;
  double max_norm;
  StepDecision* decision;
};

struct OptimizerKernels {
  void (*adamw)(Stream&, const AdamW&);
  void (*sgd)(Stream&, const Sgd&);
  void (*sum_of_squares)(Stream&, const SumOfSquares&);
  void (*decide)(Stream&, const Decide&);
};

}  // namespace trireme
