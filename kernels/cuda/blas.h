// Blas: cuBLASLt on one GPU, with one plan per product, made once. A product with an epilogue runs
// in one call, or as a plain product and kernels of our own, whichever the plan says.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cublasLt.h>

#include "trireme/kernels/gemm.h"

#include "kernels/cuda/gemm_cache.h"
#include "kernels/gpu_sizes.h"
#include "kernels/owned.h"

namespace trireme::kernels {

// One matrix product in cuBLASLt's terms: what its algorithm depends on, its descriptors, the
// algorithms that cuBLASLt offers. cuBLASLt is column-major: its A is our b, its B our a, its D our
// c, all seen as transposed.

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

  /// Takes products with the key of `p`. `blas` is borrowed.
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

class CudaStream;

class Blas {
 public:
  /// Works on the current device, whose model is `gpu`. `cache`: a directory of choices; empty:
  /// none, and nothing is timed.
  Blas(const std::string& gpu, const std::string& cache);

  /// Queues the product. `p` is checked and not empty. A plan that `prepare` did not make is
  /// cuBLASLt's first recommendation.
  void run(CudaStream& stream, const Gemm& p);
  /// Prepares a product, see GemmKernels::prepare.
  GemmPreparation prepare(CudaStream& stream, const Gemm& p);

  /// Returns the product that runs first when our own kernels do the rest; finish() runs that rest.
  static Gemm plain_part(const Gemm& p);
  static void finish(Stream& stream, const Gemm& p);

 private:
  enum class Fusion { fused, separate };
  struct Choice {
    Fusion fusion;
    BlasProduct::Algorithm algorithm;  // fused
  };
  struct Plan {
    BlasProduct product;
    Choice choice;
    bool prepared = false;
  };

  Plan& plan_of(const Gemm& p);
  Choice first_choice(const BlasProduct& product, const Gemm& p) const;
  void run(CudaStream& stream, const Gemm& p, const BlasProduct& product, const Choice& choice);
  class Rehearsal;
  GemmPreparation choose(CudaStream& stream, const Gemm& p, const Rehearsal* rehearsal, Plan& plan);
  Choice fastest(CudaStream& stream, const Gemm& rehearsed, const Plan& plan, std::string& note);
  static bool is_plain(const Gemm& p);
  static bool may_fuse(const Gemm& p);
  static std::string to_text(const Choice& choice);
  static bool from_text(const std::string& text, const BlasProduct& product, Choice& choice);

  Owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  GemmCache cache_;
  std::mutex mutex_;  // plans_, and the pointers in a plan's descriptor until it was launched
  std::map<ProductKey, Plan> plans_;
};

}  // namespace trireme::kernels
