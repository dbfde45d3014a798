// Pointwise non-linearities and the gated one.
// GELU: Hendrycks, Gimpel 2016, arXiv:1606.08415. SwiGLU: Shazeer 2020, arXiv:2002.05202.
#pragma once

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class Activation { gelu_tanh, gelu_erf, silu };

struct ActivationForward {
  Activation kind;
  Index count;
  const float* x;
  float* y;  // may be x
};
struct ActivationBackward {
  Activation kind;
  Index count;
  const float* x;
  const float* dy;
  float* dx;  // may be dy
  Write write = Write::assign;
};

/// gate_up: (rows, 2 * channels), the gate in the first half of each row, up in the second; y = silu(gate) * up.
struct SwigluForward {
  Index rows, channels;
  const float* gate_up;
  float* y;  // (rows, channels)
};
struct SwigluBackward {
  Index rows, channels;
  const float* gate_up;
  const float* dy;
  float* dgate_up;  // (rows, 2 * channels); may be gate_up
  Write write = Write::assign;
};

struct ActivationKernels {
  void (*forward)(Stream&, const ActivationForward&);
  void (*backward)(Stream&, const ActivationBackward&);
  void (*swiglu_forward)(Stream&, const SwigluForward&);
  void (*swiglu_backward)(Stream&, const SwigluBackward&);
};

}  // namespace trireme
