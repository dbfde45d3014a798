// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), half-split layout: pair (j, j +
// head_dim / 2).
#pragma once

#include "trireme/core/device.h"
#include "trireme/core/dtype.h"

namespace trireme {

/// Rotates the first `heads` heads of every row in place or from `x` to `y`; further columns of the
/// row are copied when y is not x. The position of row r is `r % sequence` (rows are whole
/// sequences).
struct Rotary {
  enum class Direction {
    forward,
    backward  // rotates the other way: the gradient of forward
  };
  Direction direction;
  Index rows, sequence, heads, head_dim, row_stride;  // row_stride in elements, of x and y
  const void* x;       // elements of type `dtype`, f32 or bf16, computed in fp32
  void* y;             // may be x
  const float* table;  // (sequence, head_dim): cos of the angle of each pair, then sin
  DType dtype = DType::f32;
};

struct RotaryKernels {
  void (*run)(Stream&, const Rotary&);
};

}  // namespace trireme
