// What every kernel checks of the type that its arrays are stored in.
#pragma once

#include "trireme/core/dtype.h"
#include "trireme/core/error.h"

namespace trireme {

/// Activations and weights are stored as f32 or bf16. Throws: Error that names the type and `what`.
inline void check_storage(DType dtype, const char* what) {
  require(dtype == DType::f32 || dtype == DType::bf16, what, " of ", dtype,
          ": kernels compute on f32 and bf16");
}

}  // namespace trireme
