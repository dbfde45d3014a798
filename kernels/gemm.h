// What the versions of matrix products share: the checks of their arguments.
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/gemm.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_gemm(const Gemm& p) {
  require(p.m >= 0 && p.n >= 0 && p.k >= 0, "matrix product of m ", p.m, ", n ", p.n, ", k ", p.k);
  const Index a_columns = p.transpose_a == Transpose::no ? p.k : p.m;
  const Index b_columns = p.transpose_b == Transpose::no ? p.n : p.k;
  require(p.lda >= a_columns, "lda ", p.lda, " is less than the ", a_columns, " columns of a");
  require(p.ldb >= b_columns, "ldb ", p.ldb, " is less than the ", b_columns, " columns of b");
  require(p.ldc >= p.n, "ldc ", p.ldc, " is less than the ", p.n, " columns of c");
  require(p.bias == nullptr || p.write == Write::assign,
          "a bias goes with an assigned product only");
  require((p.dtype == DType::f32 && p.result == DType::f32) ||
              (p.dtype == DType::bf16 && (p.result == DType::bf16 || p.result == DType::f32)),
          "matrix product of ", p.dtype, " to ", p.result,
          ": f32 to f32, bf16 to bf16 and bf16 to f32 are there");
  if (p.epilogue != Epilogue::none)
    require(p.write == Write::assign && p.ldc == p.n && p.gelu_input != nullptr &&
                (p.bias == nullptr || p.epilogue == Epilogue::gelu),
            "GELU after a product has gelu_input, assigns a packed c, and its gradient has no "
            "bias; ldc is ",
            p.ldc, ", n ", p.n);
  if (p.bias_gradient != nullptr)
    require(p.transpose_a == Transpose::yes && p.lda == p.m && p.result == DType::f32 &&
                p.bias == nullptr && p.epilogue == Epilogue::none,
            "a bias gradient goes with a packed, transposed a and an f32 result, without bias and "
            "epilogue; lda is ",
            p.lda, ", m ", p.m, ", the result ", p.result);
}
/// `wanted`: gemm_workspace_bytes of the device.
inline void check_workspace(const Gemm& p, Index wanted) {
  require(wanted == 0 || p.workspace != nullptr, "a matrix product of m ", p.m, ", n ", p.n, ", k ",
          p.k, " needs ", wanted, " bytes of workspace on this device");
}

}  // namespace trireme::kernels
