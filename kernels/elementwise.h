// What the versions of the elementwise kernels share: the checks of their arguments, and the inner
// loops that each instruction set of CPUs fills in (kernels/cpu/loops.h).
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/elementwise.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_elementwise(const Addition& p) { check_array(p, "add"); }
inline void check_elementwise(const BiasAdd& p) { check_matrix(p, "bias"); }
inline void check_elementwise(const BiasBackward& p) { check_matrix(p, "bias gradient"); }
inline void check_elementwise(const Dropout& p) {
  require(p.rate >= 0 && p.rate < 1, "dropout rate ", p.rate, " is not in [0, 1)");
  require(p.count >= 0 && p.first_element >= 0, "dropout of ", p.count, " elements from ",
          p.first_element);
  check_storage(p.dtype, "dropout");
}
inline void check_elementwise(const SquaredErrorForward& p) { check_array(p, "squared error"); }
inline void check_elementwise(const SquaredErrorBackward& p) {
  check_array(p, "squared error gradient");
}

struct ElementwiseLoops {
  static const ElementwiseLoops portable, avx2, avx512;

  void (*add)(const Addition&, Index begin, Index end);
  void (*bias_add)(const BiasAdd&, Index begin_row, Index end_row);
  void (*bias_backward)(const BiasBackward&, Index begin_channel, Index end_channel);
  void (*dropout)(const Dropout&, Index begin, Index end);
  double (*squared_error)(const SquaredErrorForward&, Index begin, Index end);
  void (*squared_error_backward)(const SquaredErrorBackward&, Index begin, Index end);
};

}  // namespace trireme::kernels
