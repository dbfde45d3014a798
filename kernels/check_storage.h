// What every kernel checks of the type that its arrays are stored in.
#pragma once

#include "trireme/core/dtype.h"
#include "trireme/core/error.h"

namespace trireme::kernels {

/// Activations and weights are stored as f32 or bf16. Throws: Error that names the type and `what`.
inline void check_storage(DType dtype, const char* what) {
  require(dtype == DType::f32 || dtype == DType::bf16, what, " of ", dtype,
          ": kernels compute on f32 and bf16");
}
/// Checks the arguments of a kernel over `count` elements. Names a size that does not fit, too.
template <class Arguments>
void check_array(const Arguments& p, const char* what) {
  require(p.count >= 0, what, " of ", p.count, " elements");
  check_storage(p.dtype, what);
}
/// Checks arguments over `rows` rows of `channels` elements, which are at least `least_channels`.
template <class Arguments>
void check_matrix(const Arguments& p, const char* what, Index least_channels = 0) {
  require(p.rows >= 0 && p.channels >= least_channels, what, " of (", p.rows, ", ", p.channels,
          ")");
  check_storage(p.dtype, what);
}

}  // namespace trireme::kernels
