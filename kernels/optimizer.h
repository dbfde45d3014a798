// What the versions of the optimizer kernels share: the checks of their arguments, and the inner
// loops that each instruction set of CPUs fills in (kernels/cpu/loops.h).
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/optimizer.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_optimizer(const AdamW& p) {
  require(p.list.count >= 0, "AdamW of ", p.list.count, " ranges");
  require(p.scalars != nullptr, "AdamW needs the scalars of its step");
  require(p.decision != nullptr, "AdamW needs the decision that the norm of gradients led to");
}

inline void check_optimizer(const Sgd& p) {
  require(p.list.count >= 0, "SGD of ", p.list.count, " ranges");
  require(p.momentum == 0 || p.momentum_buffer != nullptr, "SGD with momentum ", p.momentum,
          " needs its buffer");
  require(p.scalars != nullptr, "SGD needs the scalars of its step");
  require(p.decision != nullptr, "SGD needs the decision that the norm of gradients led to");
}

inline void check_optimizer(const SumOfSquares& p) {
  require(p.list.count >= 0, "sum of squares over ", p.list.count, " ranges");
}

struct OptimizerLoops {
  static const OptimizerLoops portable, avx2, avx512;

  /// Elements [begin, end) of a range.
  void (*adamw)(const AdamW&, const UpdateRange&, Index begin, Index end);
  void (*sgd)(const Sgd&, const UpdateRange&, Index begin, Index end);
  double (*sum_of_squares)(const float* x, Index begin, Index end);
};

}  // namespace trireme::kernels
