// One matrix product in cuBLASLt's terms: what its algorithm depends on, its descriptors, the
// algorithms that cuBLASLt offers. cuBLASLt is column-major: its A is our b, its B our a, its D our
// c, all seen as transposed.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <vector>

#include <cublasLt.h>

#include "trireme/kernels/gemm.h"

#include "kernels/gpu_sizes.h"
#include "kernels/owned.h"

namespace trireme::kernels {

/// Throws: Error with cuBLAS's name and text of the status, and `what` failed.
void check(cublasStatus_t status, const char* what);

/// Everything that the choice of an algorithm may depend on. Alignments in bytes, up to 16.
struct ProductKey {
  Index m, n, k, lda, ldb, ldc;
  Transpose transpose_a, transpose_b;
  DType dtype, result;
  Write write;
  Epilogue epilogue;
  bool has_bias, has_bias_gradient;
  int align_a, align_b, align_c, align_vector, align_gelu;

  static ProductKey of(const Gemm& p);
  /// One line.
  std::string text() const;
  auto operator<=>(const ProductKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

class BlasProduct {
 public:
  using Algorithm = cublasLtMatmulAlgo_t;

  /// For products with the key of `p`. `blas` is borrowed.
  BlasProduct(cublasLtHandle_t blas, const Gemm& p);

  /// What cuBLASLt's heuristics recommend, best first; empty if it cannot do all of this in one
  /// call.
  std::vector<Algorithm> recommended(int most) const;
  /// Whether it can run this product with at most blas_workspace_bytes.
  bool accepts(const Algorithm& algorithm) const;
  /// Queues it. A bias gradient is assigned, whatever `p` says. Not for two threads at once.
  void run(cudaStream_t stream, void* workspace, const Gemm& p, const Algorithm& algorithm) const;

 private:
  void point_at(const Gemm& p) const;

  cublasLtHandle_t blas_;
  ProductKey key_;
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product_;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a_, b_, c_;
};

}  // namespace trireme::kernels
