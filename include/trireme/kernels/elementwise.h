// Additions, copies, bias, dropout and squared error.
#pragma once

#include "trireme/core/device.h"
#include "trireme/core/step_scalars.h"
#include "trireme/core/tensor.h"
#include "trireme/kernels/write.h"

namespace trireme {

/// y = a + b; y may be a or b (y += b is a sum with a = y). `dtype` here and below: of activations
/// and weights, f32 or bf16; sums are computed in fp32.
struct Addition {
  Index count;
  const void* a;
  const void* b;
  void* y;
  DType dtype = DType::f32;
};
/// y(rows, channels) = x + bias(channels); y may be x.
struct BiasAdd {
  Index rows, channels;
  const void* x;
  const void* bias;
  void* y;
  DType dtype = DType::f32;
};
/// dbias(channels) += sum over rows of dy, in a fixed order.
struct BiasBackward {
  Index rows, channels;
  const void* dy;
  float* dbias;
  DType dtype = DType::f32;
};
/// y = keep ? x / (1 - rate) : 0, where keep is random.uniform(first_element + i) >= rate. Its
/// gradient is the same call on dy. `first_element`: global index of element 0, so that every
/// layout drops the same elements.
struct Dropout {
  Index count;
  Index first_element;
  float rate;
  StepRandom random;
  const void* x;
  void* y;  // may be x
  Write write = Write::assign;
  DType dtype = DType::f32;
};
/// loss (1) = sum of (x - target)^2 in fp64, fixed order.
struct SquaredErrorForward {
  Index count;
  const void* x;
  const void* target;
  double* loss;
  DType dtype = DType::f32;
};
/// dx = 2 (x - target) * *scale.
struct SquaredErrorBackward {
  Index count;
  const void* x;
  const void* target;
  const double* scale;
  void* dx;
  Write write = Write::assign;
  DType dtype = DType::f32;
};

struct ElementwiseKernels {
  void (*add)(Stream&, const Addition&);
  void (*bias_add)(Stream&, const BiasAdd&);
  void (*bias_backward)(Stream&, const BiasBackward&);
  void (*dropout)(Stream&, const Dropout&);
  void (*squared_error_forward)(Stream&, const SquaredErrorForward&);
  void (*squared_error_backward)(Stream&, const SquaredErrorBackward&);
  /// Copies (or adds, floating-point types only) between two tensors of the same shape with any
  /// strides. Same dtype, or f32 and bf16, which are converted; a sum is computed in f32 and
  /// rounded once.
  void (*copy_strided)(Stream&, const Tensor& to, const Tensor& from, Write write);
};

}  // namespace trireme
