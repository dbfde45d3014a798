// Additions, copies, bias, dropout and squared error.
#pragma once

#include "trireme/core/device.h"
#include "trireme/core/random.h"
#include "trireme/core/tensor.h"
#include "trireme/kernels/write.h"

namespace trireme {

/// y(rows, channels) = x + bias(channels); y may be x.
struct BiasAdd {
  Index rows, channels;
  const float* x;
  const float* bias;
  float* y;
};
/// dbias(channels) += sum over rows of dy, in a fixed order.
struct BiasBackward {
  Index rows, channels;
  const float* dy;
  float* dbias;
};
/// y = keep ? x / (1 - rate) : 0, where keep depends on random.uniform(first_element + i) >= rate only.
/// Its gradient is the same call on dy. `first_element`: global index of element 0, so that every layout drops alike.
struct Dropout {
  Index count;
  Index first_element;
  float rate;
  Random random;
  const float* x;
  float* y;  // may be x
  Write write = Write::assign;
};
/// loss (1) = sum of (x - target)^2 in fp64, fixed order.
struct SquaredErrorForward {
  Index count;
  const float* x;
  const float* target;
  double* loss;
};
/// dx = 2 (x - target) * *scale.
struct SquaredErrorBackward {
  Index count;
  const float* x;
  const float* target;
  const double* scale;
  float* dx;
  Write write = Write::assign;
};

struct ElementwiseKernels {
  void (*add)(Stream&, const float* a, const float* b, float* y, Index count);  // y may be a or b
  void (*accumulate)(Stream&, float* y, const float* x, Index count);           // y += x
  void (*scale)(Stream&, float* y, float factor, Index count);                  // y *= factor
  void (*bias_add)(Stream&, const BiasAdd&);
  void (*bias_backward)(Stream&, const BiasBackward&);
  void (*dropout)(Stream&, const Dropout&);
  void (*squared_error_forward)(Stream&, const SquaredErrorForward&);
  void (*squared_error_backward)(Stream&, const SquaredErrorBackward&);
  /// Copies (or adds, floating types only) between two tensors of one shape with any strides. One dtype, or f32 and bf16,
  /// which are converted; a sum is made in f32 and rounded once.
  void (*copy_strided)(Stream&, const Tensor& to, const Tensor& from, Write write);
};

}  // namespace trireme
