// Blas: cuBLASLt on one GPU, with one plan per product, made once. A product with an epilogue runs
// in one call, or as a plain product and kernels of our own, whichever the plan says.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "kernels/cuda/blas_product.h"
#include "kernels/cuda/gemm_cache.h"

namespace trireme::kernels {

class CudaStream;

class Blas {
 public:
  /// For the current device, whose model is `gpu`. `cache`: of choices, a directory; empty: none,
  /// and nothing is timed.
  Blas(const std::string& gpu, const std::string& cache);

  /// Queues the product. `p` is checked and not empty. A plan that `prepare` did not make is
  /// cuBLASLt's first recommendation.
  void run(CudaStream& stream, const Gemm& p);
  /// As GemmKernels::prepare.
  GemmPreparation prepare(CudaStream& stream, const Gemm& p);

  /// The product that runs first when our own kernels do the rest, and that rest.
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
