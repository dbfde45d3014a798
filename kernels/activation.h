// What the versions of the activations share: the checks of their arguments, and the inner loops
// that each instruction set of CPUs fills in (kernels/cpu/loops.h).
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/activation.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_activation(const ActivationForward& p) { check_array(p, "activation"); }
inline void check_activation(const ActivationBackward& p) { check_array(p, "activation gradient"); }
inline void check_activation(const SwigluForward& p) { check_matrix(p, "swiglu", 1); }
inline void check_activation(const SwigluBackward& p) { check_matrix(p, "swiglu gradient", 1); }

struct ActivationLoops {
  static const ActivationLoops portable, avx2, avx512;

  void (*forward)(const ActivationForward&, Index begin, Index end);
  void (*backward)(const ActivationBackward&, Index begin, Index end);
  void (*swiglu_forward)(const SwigluForward&, Index begin_row, Index end_row);
  void (*swiglu_backward)(const SwigluBackward&, Index begin_row, Index end_row);
};

}  // namespace trireme::kernels
