// Pointwise non-linearities and the gated one.
// GELU: Hendrycks, Gimpel 2016, arXiv:1606.08415. SwiGLU: Shazeer 2020, arXiv:2002.05202.
#pragma once

#include "trireme/core/device.h"
#include "trireme/core/dtype.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class Activation { gelu_tanh, gelu_erf, silu };

// `void*`: arrays of `dtype`, f32 or bf16, computed in fp32 and rounded once.

struct ActivationForward {
  Activation kind;
  Index count;
  const void* x;
  void* y;  // may be x
  DType dtype = DType::f32;
};
struct ActivationBackward {
  Activation kind;
  Index count;
  const void* x;
  const void* dy;
  void* dx;  // may be dy
  Write write = Write::assign;
  DType dtype = DType::f32;
};

/// gate_up: (rows, 2 * channels), the gate in the first half of each row, up in the second; y =
/// silu(gate) * up.
struct SwigluForward {
  Index rows, channels;
  const void* gate_up;
  void* y;  // (rows, channels)
  DType dtype = DType::f32;
};
struct SwigluBackward {
  Index rows, channels;
  const void* gate_up;
  const void* dy;
  void* dgate_up;  // (rows, 2 * channels); may be gate_up
  Write write = Write::assign;
  DType dtype = DType::f32;
};

struct ActivationKernels {
  void (*forward)(Stream&, const ActivationForward&);
  void (*backward)(Stream&, const ActivationBackward&);
  void (*swiglu_forward)(Stream&, const SwigluForward&);
  void (*swiglu_backward)(Stream&, const SwigluBackward&);
};

}  // namespace trireme
