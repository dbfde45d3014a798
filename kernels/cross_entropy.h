// What the versions of cross-entropy share: the checks of their arguments, and the inner loops that
// each instruction set of CPUs fills in (kernels/cpu/loops.h).
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/cross_entropy.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_cross_entropy(const CrossEntropyPartial& p) {
  require(p.rows >= 0 && p.columns >= 0 && p.columns <= p.row_stride, "cross-entropy over ",
          p.columns, " columns of rows of ", p.row_stride);
  check_storage(p.dtype, "cross-entropy");
}

inline void check_cross_entropy(const CrossEntropyCombine& p) {
  require(p.rows >= 0 && p.ranks >= 1, "cross-entropy of ", p.rows, " rows over ", p.ranks,
          " ranks");
}

inline void check_cross_entropy(const CrossEntropyBackward& p) {
  require(p.columns >= 0 && p.columns <= p.padded_columns && p.padded_columns <= p.row_stride,
          "cross-entropy gradient over ", p.columns, " columns, ", p.padded_columns,
          " with padding, of rows of ", p.row_stride);
  check_storage(p.dtype, "cross-entropy gradient");
}

struct CrossEntropyLoops {
  static const CrossEntropyLoops portable, avx2, avx512;

  void (*partial)(const CrossEntropyPartial&, Index begin_row, Index end_row);
  void (*backward)(const CrossEntropyBackward&, Index begin_row, Index end_row);
};

}  // namespace trireme::kernels
