// Updates of flat parameter ranges, and the reductions that clipping needs.
// AdamW: Loshchilov, Hutter 2017, arXiv:1711.05101.
#pragma once

#include "trireme/core/device.h"

namespace trireme {

struct AdamW {
  Index count;
  float* parameter;
  const float* gradient;
  float* first_moment;
  float* second_moment;
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float bias_correction1, bias_correction2;  // 1 - beta^step
  const float* gradient_scale;               // (1) clipping factor, on the device
};
struct Sgd {
  Index count;
  float* parameter;
  const float* gradient;
  float* momentum_buffer;  // null when momentum is 0
  float learning_rate, momentum, weight_decay;
  const float* gradient_scale;
};

struct OptimizerKernels {
  void (*adamw)(Stream&, const AdamW&);
  void (*sgd)(Stream&, const Sgd&);
  /// *sum (1) += sum of x^2 in fp64; the order does not depend on the number of threads.
  void (*add_sum_of_squares)(Stream&, const float* x, Index count, double* sum);
};

}  // namespace trireme
