// One call of the emulated cuBLASLt: its descriptors, and the product computed the slow way, in
// fp64 and column-major.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cublasLt.h>
#include <cuda_bf16.h>

#include "tests/cuda_emulation/streams.h"

namespace trireme::emulation {

inline constexpr std::size_t least_workspace = 4096;
inline constexpr int scribble = 0xff;
inline constexpr std::int32_t any_type = -1;  // that of the result

struct Layout {
  cudaDataType type;
  std::int64_t rows, columns, leading;
};
struct Product {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;  // the bias, or the gradient of one
  std::int32_t vector_type = any_type;
  void* gelu_input = nullptr;  // "aux"
  std::int64_t gelu_leading = 0;

  bool has(cublasLtEpilogue_t part) const { return (epilogue & part) == part; }
  bool reads_bias() const { return has(CUBLASLT_EPILOGUE_BIAS); }
  bool sums_b() const { return has(CUBLASLT_EPILOGUE_BGRADB); }
  bool makes_gelu() const { return has(CUBLASLT_EPILOGUE_GELU_AUX); }
  bool takes_gelu_back() const { return has(CUBLASLT_EPILOGUE_DGELU); }
};

inline float load(cudaDataType type, const void* data, std::int64_t at) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[at]
                            : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
}
inline void store(cudaDataType type, void* data, std::int64_t at, float value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[at] = value;
  else
    static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
}

inline float as_stored(cudaDataType type, double value) {
  const auto rounded = static_cast<float>(value);
  return type == CUDA_R_32F ? rounded : __bfloat162float(__float2bfloat16_rn(rounded));
}

/// op(matrix) as rows (of_rows) or columns that lie together.
inline std::vector<float> gathered(const Layout& l, const void* data, bool of_rows) {
  const std::int64_t lines = of_rows ? l.rows : l.columns, length = of_rows ? l.columns : l.rows;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(lines * length));
  for (std::int64_t line = 0; line < lines; ++line)
    for (std::int64_t i = 0; i < length; ++i)
      values.push_back(load(l.type, data, of_rows ? i * l.leading + line : line * l.leading + i));
  return values;
}

/// The tanh form, and its slope.
inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

struct Call {
  Product product;
  Layout a, b, c;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
  void* workspace;
  double us;
  bool rounds_parts;

  std::int64_t inner() const { return product.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }
  bool fits() const {
    const bool ta = product.transpose_a != CUBLAS_OP_N, tb = product.transpose_b != CUBLAS_OP_N;
    return (ta ? a.columns : a.rows) == c.rows && (tb ? b.rows : b.columns) == c.columns &&
           inner() == (tb ? b.columns : b.rows);
  }
  /// Sums in fp64: the order, which cuBLAS does not state, must not matter to a test.
  void run() const {
    std::memset(workspace, scribble, least_workspace);
    const std::vector<float> x = gathered(a, a_data, product.transpose_a == CUBLAS_OP_N);
    const std::vector<float> y = gathered(b, b_data, product.transpose_b != CUBLAS_OP_N);
    for (std::int64_t column = 0; column < c.columns; ++column)
      for (std::int64_t row = 0; row < c.rows; ++row) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner(); ++k) {
          if (rounds_parts && k == inner() / 2) sum = as_stored(c.type, sum);
          sum += static_cast<double>(x[static_cast<std::size_t>(row * inner() + k)]) *
                 static_cast<double>(y[static_cast<std::size_t>(column * inner() + k)]);
        }
        const std::int64_t at = column * c.leading + row;
        float value = alpha * static_cast<float>(sum);
        if (beta != 0) value += beta * load(c.type, c_data, at);
        if (product.reads_bias()) value += load(c.type, product.vector, row);
        store(c.type, d_data, at, after(value, column * product.gelu_leading + row));
      }
    if (product.sums_b()) add_up(y);
    Streams::instance().spend(us);
  }
  float after(float value, std::int64_t at) const {
    if (product.takes_gelu_back())
      return static_cast<float>(value * gelu_slope(load(c.type, product.gelu_input, at)));
    if (!product.makes_gelu()) return value;
    store(c.type, product.gelu_input, at, value);
    return static_cast<float>(gelu(value));
  }
  /// Assigned, whatever beta is.
  void add_up(const std::vector<float>& columns_of_b) const {
    for (std::int64_t column = 0; column < c.columns; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner(); ++k)
        sum += columns_of_b[static_cast<std::size_t>(column * inner() + k)];
      store(c.type, product.vector, column, static_cast<float>(sum));
    }
  }
};

}  // namespace trireme::emulation
