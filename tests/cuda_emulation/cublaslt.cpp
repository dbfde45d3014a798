// The entry points of cuBLASLt that trireme's module calls: products computed the slow way when
// their stream gets there. As cuBLAS does, it refuses what an algorithm was not chosen for (another
// shape, less alignment, a smaller workspace), and rounds parts of a sum where it may.
#include "tests/cuda_emulation/cublaslt.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cuda_bf16.h>

#include "tests/cuda_emulation/blas_call.h"
#include "tests/cuda_emulation/device_code.h"

namespace trireme::emulation {
namespace {

constexpr int gelu_stride = 8;

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t a = 256, b = 256, c = 256, d = 256;  // alignments

  /// May a product be split along k and its parts be rounded to the type of the result?
  bool rounds_parts() const {
    return (reduction &
            (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0;
  }
};
/// What a cublasLtMatmulAlgo_t holds here: what it was chosen for.
struct Algorithm {
  std::uint64_t shape;
  std::uint8_t a, b, c, d, vector, gelu_input;
  std::uint8_t index;  // among the recommendations
  bool rounds_parts;
};

Layout& of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Layout*>(layout); }
Product& of(cublasLtMatmulDesc_t product) { return *reinterpret_cast<Product*>(product); }
Preference& of(cublasLtMatmulPreference_t p) { return *reinterpret_cast<Preference*>(p); }

std::uint64_t shape_of(const Product& p, const Layout& a, const Layout& b, const Layout& c) {
  std::uint64_t hash = 1469598103934665603u;
  const auto mix = [&](auto value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211u;
  };
  for (const Layout& l : {a, b, c}) {
    mix(l.type);
    mix(l.rows);
    mix(l.columns);
    mix(l.leading);
  }
  mix(p.transpose_a);
  mix(p.transpose_b);
  mix(p.epilogue);
  mix(p.gelu_leading);
  return hash;
}

/// How long the next launch of an algorithm seems to take.
double next_time_us(const BlasBehaviour& behaviour, int algorithm) {
  const auto own = behaviour.times_of_launches_us.find(algorithm);
  const double usual = behaviour.times_us[static_cast<std::size_t>(algorithm)];
  if (own == behaviour.times_of_launches_us.end()) return usual;
  const auto& launched = behaviour.launched;
  const auto before =
      static_cast<std::size_t>(std::count(launched.begin(), launched.end(), algorithm));
  return before < own->second.size() ? own->second[before] : usual;
}

bool is_aligned(const void* data, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}
/// Of a pointer in a descriptor, which is all that the heuristics see of it.
std::uint8_t alignment_of(const void* data) {
  std::uint8_t alignment = 1;
  while (alignment < 16 && is_aligned(data, 2u * alignment)) alignment *= 2;
  return alignment;
}
bool is_known(cudaDataType type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }

bool is_complete(const Product& p, const Layout& c) {
  const bool vector = p.reads_bias() || p.sums_b(), gelu = p.makes_gelu() || p.takes_gelu_back();
  return (!vector || p.vector != nullptr) &&
         (!gelu || (p.gelu_input != nullptr && p.gelu_leading >= c.rows));
}
/// What cuBLASLt may answer with "invalid value": GELU's leading dimension.
bool breaks_a_rule(const Product& p) {
  const bool gelu = p.makes_gelu() || p.takes_gelu_back();
  return gelu && p.gelu_leading % gelu_stride != 0;
}
/// A bias, or the gradient of one, has the type of the result, and is the only one that is offered.
bool has_algorithms(const Product& p, const Layout& c) {
  const bool vector = p.reads_bias() || p.sums_b();
  return !blas_behaviour().unknown.contains(p.epilogue) && !breaks_a_rule(p) &&
         (!vector || p.vector_type == any_type || p.vector_type == c.type);
}

template <class T>
cublasStatus_t assign(T& to, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

BlasBehaviour& blas_behaviour() {
  static BlasBehaviour one;
  return one;
}

}  // namespace trireme::emulation

using namespace trireme::emulation;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE   ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "CUBLAS_STATUS_INTERNAL_ERROR";
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "as the host emulation says"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (!is_known(type) || rows == 0 || columns == 0 || leading < static_cast<std::int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{
      type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *product = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete &of(product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  Product& p = of(product);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(p.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(p.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(p.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(p.vector, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(p.vector_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return assign(p.gelu_input, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return assign(p.gelu_leading, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  Preference& p = of(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(p.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(p.reduction, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return assign(p.a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return assign(p.b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return assign(p.c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(p.d, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const Preference& p = of(preference);
  BlasBehaviour& behaviour = blas_behaviour();
  ++behaviour.heuristic_calls;
  *found = 0;
  if (wanted < 1 || !is_complete(of(product), of(c)) || breaks_a_rule(of(product)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto whole = [&](const Layout& l, std::uint32_t alignment) {
    return alignment % (l.type == CUDA_R_32F ? sizeof(float) : sizeof(__nv_bfloat16)) == 0;
  };
  if (p.workspace < least_workspace || !whole(of(a), p.a) || !whole(of(b), p.b) ||
      !whole(of(c), p.c) || !has_algorithms(of(product), of(c)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto byte = [](std::uint32_t alignment) {
    return static_cast<std::uint8_t>(std::min(alignment, 128u));
  };
  *found = std::min(wanted, static_cast<int>(behaviour.times_us.size()));
  for (int i = 0; i < *found; ++i) {
    const Algorithm algorithm{shape_of(of(product), of(a), of(b), of(c)),
                              byte(p.a),
                              byte(p.b),
                              byte(p.c),
                              byte(p.d),
                              alignment_of(of(product).vector),
                              alignment_of(of(product).gelu_input),
                              static_cast<std::uint8_t>(i),
                              p.rounds_parts()};
    results[i] = {};
    static_assert(sizeof algorithm <= sizeof results[i].algo);
    std::memcpy(&results[i].algo, &algorithm, sizeof algorithm);
    results[i].workspaceSize = least_workspace;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof algorithm);
  if (algorithm.shape != shape_of(of(product), of(a), of(b), of(c)) ||
      algorithm.index >= blas_behaviour().times_us.size() || !has_algorithms(of(product), of(c)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  result->algo = *algo;
  result->workspaceSize = least_workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t /*d_layout*/, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof algorithm);
  BlasBehaviour& behaviour = blas_behaviour();
  if (algorithm.index >= behaviour.times_us.size()) return CUBLAS_STATUS_INVALID_VALUE;
  Call call{of(product),
            of(a_layout),
            of(b_layout),
            of(c_layout),
            a,
            b,
            c,
            d,
            *static_cast<const float*>(alpha),
            *static_cast<const float*>(beta),
            workspace,
            next_time_us(behaviour, algorithm.index),
            algorithm.rounds_parts};
  if (call.product.epilogue != CUBLASLT_EPILOGUE_DEFAULT) call.us += behaviour.epilogue_us;
  if (!call.fits() || !is_complete(call.product, call.c)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm.shape != shape_of(call.product, call.a, call.b, call.c) ||
      workspace_bytes < least_workspace || !is_aligned(workspace, 256) ||
      !is_aligned(a, algorithm.a) || !is_aligned(b, algorithm.b) || !is_aligned(c, algorithm.c) ||
      !is_aligned(d, algorithm.d) || !is_aligned(call.product.vector, algorithm.vector) ||
      !is_aligned(call.product.gelu_input, algorithm.gelu_input) ||
      !is_aligned(call.product.vector, algorithm.d) ||  // an epilogue reads as it writes d
      !is_aligned(call.product.gelu_input, algorithm.d) ||
      behaviour.broken.contains(algorithm.index))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  behaviour.launched.push_back(algorithm.index);
  behaviour.epilogues.push_back(call.product.epilogue);
  behaviour.operands.insert(call.a.type);
  behaviour.first_launches += behaviour.met.insert({algorithm.shape, algorithm.index}).second;
  enqueue(stream, "cublasLtMatmul", [call] { call.run(); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
