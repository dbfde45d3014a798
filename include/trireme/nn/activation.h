// Pointwise non-linearities and the gated one.
// GELU: Hendrycks, Gimpel 2016, arXiv:1606.08415. SwiGLU: Shazeer 2020, arXiv:2002.05202.
#pragma once

#include "trireme/graph/graph.h"

namespace trireme {

/// GPT-2's GELU: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). x: any shape.
Value gelu_tanh(Value x);
/// The exact GELU: 0.5 x (1 + erf(x / sqrt(2))). x: any shape.
Value gelu_erf(Value x);
/// x * sigmoid(x). x: any shape.
Value silu(Value x);

/// silu(gate) * up. gate_up: (rows, 2 * channels), the gate in the first half of each row -> (rows,
/// channels). One packed linear of the parts "gate" and "up" makes it (nn/linear.h).
Value swiglu(Value gate_up);

}  // namespace trireme
