// What the versions of the norms share: the checks of their arguments, and the inner loops that
// each instruction set of CPUs fills in (kernels/cpu/loops.h).
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/norm.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_norm(const NormForward& p) {
  require(p.rows >= 0 && p.channels >= 1, "norm of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "norm");
  require((p.delta == nullptr) == (p.sum == nullptr),
          "a norm has `sum` exactly when it has `delta`");
  require((p.mean != nullptr) == (p.kind == NormKind::layer),
          "a norm has `mean` exactly when it is a layer norm");
  require(p.rstd != nullptr && p.weight != nullptr, "a norm needs `weight` and `rstd`");
}

inline void check_norm(const NormBackward& p) {
  require(p.rows >= 0 && p.channels >= 1, "norm gradient of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "norm gradient");
  require((p.mean != nullptr) == (p.kind == NormKind::layer),
          "a norm has `mean` exactly when it is a layer norm");
  const bool parameters = p.dweight != nullptr || p.dbias != nullptr;
  require(!parameters || p.workspace != nullptr,
          "the parameter gradients of a norm need workspace");
}

struct NormLoops {
  static const NormLoops portable, avx2, avx512;

  void (*forward)(const NormForward&, Index begin_row, Index end_row);
  /// Rows of dx, and the sums over these rows for dweight and dbias, assigned to `dweight` and
  /// `dbias` (either null).
  void (*backward)(const NormBackward&, float* dweight, float* dbias, Index begin_row,
                   Index end_row);
};

}  // namespace trireme::kernels
