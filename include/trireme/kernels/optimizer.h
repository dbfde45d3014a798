// Updates of flat buffers, and the decision that controls them: gradient norm, clipping, skipping.
// One call processes a list of ranges. No result returns to the host, so a whole step can be queued
// on a GPU stream. AdamW: Loshchilov, Hutter 2017, arXiv:1711.05101.
#pragma once

#include <cmath>

#include "trireme/core/bf16.h"
#include "trireme/core/device.h"
#include "trireme/core/macros.h"
#include "trireme/core/step_scalars.h"
#include "trireme/kernels/range_list.h"

namespace trireme {

/// What the norm of all gradients decided, on the device.
struct StepDecision {
  double norm;              // before clipping
  double clip_coefficient;  // factor applied to gradients
  Index skip;               // not 0: the norm is not finite, and nothing is updated
};

/// The factor that limits the norm of the gradients to `max_norm`; 1 when it is within the limit,
/// or max_norm is 0 (off).
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
  float beta1, beta2, epsilon;
  const StepScalars* scalars;    // (1), on the device
  const StepDecision* decision;  // (1), on the device
  Bf16* compute_copy = nullptr;  // null, or like `gradient`: gets the new values, rounded
};
struct Sgd {
  DeviceList<UpdateRange> list;
  float* parameter;
  const float* gradient;
  float* momentum_buffer;  // null when momentum is 0
  float momentum;
  const StepScalars* scalars;
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
