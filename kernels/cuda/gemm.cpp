// Matrix products by cuBLASLt. fp32 operands stay fp32: TF32 would round them to 10 bits, and parity with CPUs would be gone.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/shape_checks.h"

namespace trireme {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw Error(
        str(what, ": ", cublasLtGetStatusName(status), ": ", cublasLtGetStatusString(status)));
}

namespace {

/// Of the address, as far as an algorithm cares: no load is wider than 16 bytes.
int alignment(const void* data) {
  constexpr int widest = 16;
  const int zeros = std::countr_zero(reinterpret_cast<std::uintptr_t>(data));
  return zeros >= std::countr_zero(unsigned{widest}) ? widest : 1 << zeros;
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

cudaDataType type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

/// A row-major (rows, columns) matrix, which cuBLAS sees as its transpose.
cublasLtMatrixLayout_t make_layout(DType dtype, Index rows, Index columns, Index leading) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type_of(dtype), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), leading),
        "cublasLtMatrixLayoutCreate");
  return layout;
}
cublasLtMatrixLayout_t make_layout(DType dtype, Index rows, Index columns, Index leading,
                                   Transpose transpose) {
  return transpose == Transpose::no ? make_layout(dtype, rows, columns, leading)
                                    : make_layout(dtype, columns, rows, leading);
}

cublasOperation_t operation(Transpose transpose) {
  return transpose == Transpose::no ? CUBLAS_OP_N : CUBLAS_OP_T;
}

}  // namespace

Blas::Blas() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

Blas::Shape Blas::shape_of(const Gemm& p) {
  return {p.m,
          p.n,
          p.k,
          p.lda,
          p.ldb,
          p.ldc,
          p.transpose_a,
          p.transpose_b,
          p.dtype,
          p.result,
          p.bias != nullptr,
          alignment(p.a),
          alignment(p.b),
          alignment(p.c)};
}

Blas::Plan Blas::make_plan(const Shape& s) const {
  Plan plan;
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  plan.product.reset(product);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(s.transpose_b));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(s.transpose_a));
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE,
      s.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
  plan.a.reset(make_layout(s.dtype, s.k, s.n, s.ldb, s.transpose_b));
  plan.b.reset(make_layout(s.dtype, s.m, s.k, s.lda, s.transpose_a));
  plan.c.reset(make_layout(s.result, s.m, s.n, s.ldc));
  plan.algorithm = choose_algorithm(s, plan);
  return plan;
}

/// cuBLAS's own favourite. Timing several candidates once per shape, and remembering the choice on disk, belongs here.
cublasLtMatmulAlgo_t Blas::choose_algorithm(const Shape& s, const Plan& plan) const {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(created);
  set(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(workspace_bytes));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(s.align_b));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(s.align_a));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(s.align_c));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(s.align_c));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  check(
      cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.product.get(), plan.a.get(), plan.b.get(),
                                     plan.c.get(), plan.c.get(), created, 1, &best, &found),
      "cublasLtMatmulAlgoGetHeuristic");
  require(found == 1, "cuBLAS has no algorithm for m ", s.m, ", n ", s.n, ", k ", s.k);
  check(best.state, "cublasLtMatmulAlgoGetHeuristic");
  return best.algo;
}

void Blas::multiply(cudaStream_t stream, void* workspace, const Gemm& p) {
  const Shape shape = shape_of(p);
  const std::lock_guard lock(mutex_);
  auto plan = plans_.find(shape);
  if (plan == plans_.end()) plan = plans_.emplace(shape, make_plan(shape)).first;
  const Plan& chosen = plan->second;
  if (p.bias != nullptr) set(chosen.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  const float alpha = 1, beta = p.write == Write::add ? 1.0f : 0.0f;
  check(cublasLtMatmul(handle_.get(), chosen.product.get(), &alpha, p.b, chosen.a.get(), p.a,
                       chosen.b.get(), &beta, p.c, chosen.c.get(), p.c, chosen.c.get(),
                       &chosen.algorithm, workspace, static_cast<std::size_t>(workspace_bytes),
                       stream),
        "cublasLtMatmul");
}

namespace {

/// Nothing to multiply: c becomes zeros, or the bias in every row.
void assign_bias(Stream& stream, const Gemm& p) {
  const auto bytes = [&](Index count) {
    return static_cast<std::size_t>(count * size_bytes(p.result));
  };
  if (p.bias == nullptr)
    return check(cudaMemset2DAsync(p.c, bytes(p.ldc), 0, bytes(p.n), static_cast<std::size_t>(p.m),
                                   queue_of(stream)),
                 "cudaMemset2DAsync");
  Tensor to(p.c, {p.m, p.n}, p.result), from(const_cast<void*>(p.bias), {p.m, p.n}, p.result);
  to.strides = {p.ldc, 1};
  from.strides = {0, 1};
  cuda_copy_strided(stream, to, from, Write::assign);
}

void run(Stream& stream, const Gemm& p) {
  check_gemm(p);
  if (p.m == 0 || p.n == 0 || (p.k == 0 && p.write == Write::add)) return;
  if (p.k == 0) return assign_bias(stream, p);
  CudaStream& queue = static_cast<CudaStream&>(stream);
  queue.cuda().blas().multiply(queue_of(stream), queue.gemm_workspace(), p);
}

Index workspace_bytes(Device& /*device*/, const Gemm& /*p*/) { return 0; }

Bf16Products bf16_products(Device& /*device*/) { return Bf16Products::native; }

}  // namespace

const GemmKernels cuda_gemm_kernels = {run, workspace_bytes, bf16_products};

}  // namespace trireme
