// Matrix products. Row-major; weights are stored (out, in).
#pragma once

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class Transpose { no, yes };

/// c(m, n) = op(a)(m, k) op(b)(k, n), assigned or added. Leading dimensions in elements.
/// `bias` (n), may be null, is added to every row after the product (assign only).
/// The same call on the same device gives the same bits. On CPUs the order of summation is oneDNN's, which depends on the
/// shape: a row may differ in its last bits when the number of rows does, and one thread from several (two or more agree).
struct Gemm {
  Index m, n, k;
  const float* a;
  Index lda;
  Transpose transpose_a = Transpose::no;
  const float* b;
  Index ldb;
  Transpose transpose_b = Transpose::no;
  float* c;
  Index ldc;
  Write write = Write::assign;
  const float* bias = nullptr;
};

struct GemmKernels {
  void (*run)(Stream&, const Gemm&);
};

}  // namespace trireme
