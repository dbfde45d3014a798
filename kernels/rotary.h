// What the versions of rotary position embedding share: the checks of their arguments, and the
// inner loops that each instruction set of CPUs fills in (kernels/cpu/loops.h).
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/rotary.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_rotary(const Rotary& p) {
  check_storage(p.dtype, "rotary embedding");
  require(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary embedding turns pairs: head_dim ",
          p.head_dim, " is odd");
  require(p.sequence >= 1 && p.rows % p.sequence == 0, "rotary embedding of ", p.rows,
          " rows that are not whole sequences of ", p.sequence);
  require(p.heads * p.head_dim <= p.row_stride, p.heads, " heads of ", p.head_dim,
          " do not fit in rows of ", p.row_stride);
}

struct RotaryLoops {
  static const RotaryLoops portable, avx2, avx512;

  void (*run)(const Rotary&, Index begin_row, Index end_row);
};

}  // namespace trireme::kernels
