// Matrix products. Row-major; weights are stored (out, in).
#pragma once

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class Transpose { no, yes };

/// c(m, n) = op(a)(m, k) op(b)(k, n), assigned or added. Leading dimensions in elements. Sums are fp32.
/// `dtype`: of a and b; `result`: of c and bias. They go together as (f32, f32), (bf16, bf16) and (bf16, f32).
/// `bias` (n), may be null, is added to every row after the product (assign only).
/// The same call on the same device gives the same bits. On CPUs the order of summation is oneDNN's, which depends on the
/// shape: a row may differ in its last bits when the number of rows does, and one thread from several (two or more agree).
struct Gemm {
  Index m, n, k;
  const void* a;
  Index lda;
  Transpose transpose_a = Transpose::no;
  const void* b;
  Index ldb;
  Transpose transpose_b = Transpose::no;
  void* c;
  Index ldc;
  Write write = Write::assign;
  const void* bias = nullptr;
  void* workspace = nullptr;  // workspace_bytes(device, *this), aligned to 256
  DType dtype = DType::f32;
  DType result = DType::f32;
};

/// How a device multiplies bf16: with instructions of its own, or widened to fp32 in the workspace and rounded once at the end.
enum class Bf16Products { native, widened };

struct GemmKernels {
  void (*run)(Stream&, const Gemm&);
  /// Depends on shape and types only: pointers are not looked at.
  Index (*workspace_bytes)(Device&, const Gemm&);
  Bf16Products (*bf16_products)(Device&);
};

}  // namespace trireme
