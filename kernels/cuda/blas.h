// Blas: cuBLASLt on one GPU. Its handle and, for each shape that was asked for, descriptors and the chosen algorithm.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include <cublasLt.h>

#include "trireme/kernels/gemm.h"

namespace trireme {

/// Throws: Error with cuBLAS's name and text of the status, and `what` failed.
void check(cublasStatus_t status, const char* what);

template <auto destroy>
struct DestroyBy {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyBy<destroy>>;

class Blas {
 public:
  /// What cuBLAS recommends for Hopper. Every stream has its own: products on two streams may run at once.
  static constexpr Index workspace_bytes = Index{32} << 20;

  /// For the current device.
  Blas();

  /// Queues the product on `stream`. `p` is checked and not empty. The first call of a shape chooses its algorithm.
  void multiply(cudaStream_t stream, void* workspace, const Gemm& p);

 private:
  /// All that the choice of an algorithm may depend on. Alignments in bytes.
  struct Shape {
    Index m, n, k, lda, ldb, ldc;
    Transpose transpose_a, transpose_b;
    DType dtype, result;
    bool has_bias;
    int align_a, align_b, align_c;
    auto operator<=>(const Shape&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  /// In cuBLAS's terms, which are column-major: its A is our b, its B our a, both seen as transposed.
  struct Plan {
    Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
    Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a, b, c;
    cublasLtMatmulAlgo_t algorithm;
  };
  static Shape shape_of(const Gemm& p);
  Plan make_plan(const Shape& shape) const;
  cublasLtMatmulAlgo_t choose_algorithm(const Shape& shape, const Plan& plan) const;

  Owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::mutex mutex_;  // plans_, and the bias pointer in a plan's descriptor until it was used
  std::map<Shape, Plan> plans_;
};

}  // namespace trireme
