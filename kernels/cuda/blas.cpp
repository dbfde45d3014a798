// Plans of products, and how they run: in one call of cuBLASLt, or in one for the product and
// kernels of our own for the rest.
#include "kernels/cuda/blas.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/kernels/activation.h"
#include "trireme/kernels/elementwise.h"

#include "kernels/cuda/cuda_device.h"

namespace trireme::kernels {

Blas::Blas(const std::string& gpu, const std::string& cache)
    : cache_(cache, gpu, str("cuBLASLt ", cublasLtGetVersion())) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

/// Nothing to do besides the product itself and its bias.
bool Blas::is_plain(const Gemm& p) {
  return p.epilogue == Epilogue::none && p.bias_gradient == nullptr;
}

/// GELU of f32 stays a kernel of our own: how exact cuBLASLt's tanh is is not documented, and f32
/// is there to agree with CPUs.
bool Blas::may_fuse(const Gemm& p) {
  return p.epilogue == Epilogue::none || p.result == DType::bf16;
}

Gemm Blas::plain_part(const Gemm& p) {
  Gemm plain = p;
  if (p.epilogue == Epilogue::gelu) plain.c = p.gelu_input;
  plain.epilogue = Epilogue::none;
  plain.gelu_input = nullptr;
  plain.bias_gradient = nullptr;
  return plain;
}

void Blas::finish(Stream& stream, const Gemm& p) {
  const ActivationKernels& activation = stream.kernels().activation;
  if (p.epilogue == Epilogue::gelu)
    activation.forward(stream, {.kind = Activation::gelu_tanh,
                                .count = p.m * p.n,
                                .x = p.gelu_input,
                                .y = p.c,
                                .dtype = p.result});
  if (p.epilogue == Epilogue::gelu_gradient)
    activation.backward(stream, {.kind = Activation::gelu_tanh,
                                 .count = p.m * p.n,
                                 .x = p.gelu_input,
                                 .dy = p.c,
                                 .dx = p.c,
                                 .dtype = p.result});
  if (p.bias_gradient == nullptr) return;
  if (p.write_bias_gradient == Write::assign)
    stream.zero(p.bias_gradient, p.m * static_cast<Index>(sizeof(float)));
  stream.kernels().elementwise.bias_backward(
      stream,
      {.rows = p.k, .channels = p.m, .dy = p.a, .dbias = p.bias_gradient, .dtype = p.dtype});
}

Blas::Plan& Blas::plan_of(const Gemm& p) {
  const ProductKey key = ProductKey::of(p);
  const std::lock_guard lock(mutex_);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    BlasProduct product(handle_.get(), p);
    const Choice choice = first_choice(product, p);
    found = plans_.emplace(key, Plan{std::move(product), choice}).first;
  }
  return found->second;
}

/// Without timing, a bias gradient is a pass of its own: inside the product it is free or very
/// slow, depending on the shape.
Blas::Choice Blas::first_choice(const BlasProduct& product, const Gemm& p) const {
  if (p.bias_gradient != nullptr || !may_fuse(p)) return {Fusion::separate, {}};
  const auto recommended = product.recommended(1);
  if (!recommended.empty()) return {Fusion::fused, recommended.front()};
  require(!is_plain(p), "cuBLAS has no algorithm for ", ProductKey::of(p).text());
  return {Fusion::separate, {}};
}

void Blas::run(CudaStream& stream, const Gemm& p) {
  const Plan& plan = plan_of(p);
  run(stream, p, plan.product, plan.choice);
}

void Blas::run(CudaStream& stream, const Gemm& p, const BlasProduct& product,
               const Choice& choice) {
  if (choice.fusion == Fusion::separate) {
    run(stream, plain_part(p));
    return finish(stream, p);
  }
  Gemm fused = p;
  const bool adds = p.bias_gradient != nullptr && p.write_bias_gradient == Write::add;
  if (adds) fused.bias_gradient = static_cast<float*>(p.workspace);
  {
    const std::lock_guard lock(mutex_);
    product.run(cuda_stream_of(stream), stream.gemm_workspace(), fused, choice.algorithm);
  }
  if (adds)
    stream.kernels().elementwise.add(stream,
                                     {p.m, p.bias_gradient, fused.bias_gradient, p.bias_gradient});
}

// Descriptors, heuristics and launches of cuBLASLt: the only file that uses its types.

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

/// The bias that is read, or the gradient of one that is written: cuBLASLt has one pointer for
/// both.
const void* vector_of(const Gemm& p) {
  return p.bias_gradient != nullptr ? p.bias_gradient : p.bias;
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

cublasLtEpilogue_t epilogue_of(const ProductKey& key) {
  if (key.has_bias_gradient) return CUBLASLT_EPILOGUE_BGRADB;
  switch (key.epilogue) {
    case Epilogue::gelu:
      return key.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::none:
      break;
  }
  return key.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference_for(
    const ProductKey& key) {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(created);
  const auto bytes = [](int alignment) { return static_cast<std::uint32_t>(alignment); };
  // What an epilogue reads and writes beside the result has no preference of its own, and may be
  // accessed as the result is.
  const int align_d = std::min({key.align_c, key.align_vector, key.align_gelu});
  set(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(blas_workspace_bytes));
  // Products that are split along k: their parts must not be rounded to bf16 before they are added.
  set(created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(key.result == DType::bf16 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                           : CUBLASLT_REDUCTION_SCHEME_MASK));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(key.align_b));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(key.align_a));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(key.align_c));
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(align_d));
  return preference;
}

}  // namespace

ProductKey ProductKey::of(const Gemm& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .lda = p.lda,
          .ldb = p.ldb,
          .ldc = p.ldc,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .dtype = p.dtype,
          .result = p.result,
          .write = p.write,
          .epilogue = p.epilogue,
          .has_bias = p.bias != nullptr,
          .has_bias_gradient = p.bias_gradient != nullptr,
          .align_a = alignment(p.a),
          .align_b = alignment(p.b),
          .align_c = alignment(p.c),
          .align_vector = alignment(vector_of(p)),
          .align_gelu = alignment(p.gelu_input)};
}

std::string ProductKey::text() const {
  const auto turned = [](Transpose t) { return t == Transpose::yes ? "transposed" : "plain"; };
  const char* const after[] = {"none", "gelu", "gelu_gradient"};
  return fmt::format(
      "m {} n {} k {} a {} {} b {} {} c {} {} to {} {} epilogue {}{}{} alignment {} {} {} {} {}", m,
      n, k, turned(transpose_a), lda, turned(transpose_b), ldb, ldc, name(dtype), name(result),
      write == Write::add ? "added" : "assigned", after[static_cast<int>(epilogue)],
      has_bias ? " bias" : "", has_bias_gradient ? " bias_gradient" : "", align_a, align_b, align_c,
      align_vector, align_gelu);
}

BlasProduct::BlasProduct(cublasLtHandle_t blas, const Gemm& p)
    : blas_(blas), key_(ProductKey::of(p)) {
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  product_.reset(product);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transpose_b));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transpose_a));
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key_));
  if (p.epilogue != Epilogue::none)
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.ldc));
  // Queried, not assumed: the gradient of a bias must not be rounded to the type of a and b.
  if (vector_of(p) != nullptr)
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(p.result)));
  point_at(p);  // the heuristics look at the alignment of these pointers
  a_.reset(make_layout(p.dtype, p.k, p.n, p.ldb, p.transpose_b));
  b_.reset(make_layout(p.dtype, p.m, p.k, p.lda, p.transpose_a));
  c_.reset(make_layout(p.result, p.m, p.n, p.ldc));
}

void BlasProduct::point_at(const Gemm& p) const {
  if (vector_of(p) != nullptr) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector_of(p));
  if (p.epilogue != Epilogue::none)
    set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.gelu_input);
}

std::vector<BlasProduct::Algorithm> BlasProduct::recommended(int most) const {
  const auto preference = preference_for(key_);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(blas_, product_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                                     preference.get(), most, results.data(), &found);
  // An epilogue's own rules (a leading dimension, a type, an alignment) are answered by the one or
  // the other.
  const bool more = key_.epilogue != Epilogue::none || key_.has_bias || key_.has_bias_gradient;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (more && status == CUBLAS_STATUS_INVALID_VALUE))
    return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

bool BlasProduct::accepts(const Algorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(blas_, product_.get(), a_.get(), b_.get(),
                                                        c_.get(), c_.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(blas_workspace_bytes);
}

void BlasProduct::run(cudaStream_t stream, void* workspace, const Gemm& p,
                      const Algorithm& algorithm) const {
  point_at(p);
  const float alpha = 1, beta = p.write == Write::add ? 1.0f : 0.0f;
  check(cublasLtMatmul(blas_, product_.get(), &alpha, p.b, a_.get(), p.a, b_.get(), &beta, p.c,
                       c_.get(), p.c, c_.get(), &algorithm, workspace,
                       static_cast<std::size_t>(blas_workspace_bytes), stream),
        "cublasLtMatmul");
}

}  // namespace trireme::kernels
