// Matrix products of attention's kernels in fp32 arithmetic. A block holds 64 rows of one matrix in
// shared memory and streams blocks of rows of another past them. A thread owns 4 of the 64 rows:
// their scores against every 16th streamed row, and every 16th pair of columns of their results.
#pragma once

#include "kernels/cuda/attention.cuh"

namespace trireme::kernels::gpu {

/// The first of this thread's rows.
__device__ __forceinline__ int own_row() { return static_cast<int>(threadIdx.y) * attention_own; }

/// `count` rows from row `first` on, as floats in shared memory; zeros beyond the sequence and the
/// head's width.
template <int count, int width, class T>
__device__ __forceinline__ void load_rows(float* to, HeadRows<T> from, int first,
                                          const AttentionShape& s, bool aligned) {
  constexpr int pack = 4;
  const int limit = static_cast<int>(s.sequence) - first, head_dim = static_cast<int>(s.head_dim);
  const T* const start = from.row(first);
  const int thread = static_cast<int>(threadIdx.y) * attention_side + static_cast<int>(threadIdx.x);
#pragma unroll 2
  for (int i = thread; i < count * (width / pack); i += attention_threads) {
    const int row = i / (width / pack), column = i % (width / pack) * pack;
    Vec<float, pack> values{};
    const T* x = start + row * from.stride + column;
    if (row < limit) {
      if (aligned) {
        if (column < head_dim) values = load_floats<pack>(x);
      } else {
        for (int k = 0; k < pack; ++k)
          if (column + k < head_dim) values.values[k] = to_float(x[k]);
      }
    }
    store(to + row * attention_stride(width) + column, values);
  }
}

/// scores[i][j] = (own row i of a) . (row threadIdx.x + 16 j of b)
template <int columns, int width>
__device__ __forceinline__ void multiply_rows(const float* a, const float* b,
                                              float (&scores)[attention_own][columns]) {
  const float* a_rows = a + own_row() * attention_stride(width);
  const float* b_rows = b + static_cast<int>(threadIdx.x) * attention_stride(width);
#pragma unroll
  for (int i = 0; i < attention_own; ++i)
#pragma unroll
    for (int j = 0; j < columns; ++j) scores[i][j] = 0;
#pragma unroll 1
  for (int d = 0; d < width; d += 4) {
    Vec<float, 4> x[attention_own], y[columns];
#pragma unroll
    for (int i = 0; i < attention_own; ++i)
      x[i] = load<4>(a_rows + i * attention_stride(width) + d);
#pragma unroll
    for (int j = 0; j < columns; ++j)
      y[j] = load<4>(b_rows + j * attention_side * attention_stride(width) + d);
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int i = 0; i < attention_own; ++i)
#pragma unroll
        for (int j = 0; j < columns; ++j) scores[i][j] += x[i].values[k] * y[j].values[k];
  }
}

/// The weights of this thread's rows, where multiply_weights finds them: column threadIdx.x + 16 j.
template <int columns>
__device__ __forceinline__ void put_weights(float* to,
                                            const float (&weights)[attention_own][columns]) {
  constexpr int stride = attention_stride(columns * attention_side);
#pragma unroll
  for (int i = 0; i < attention_own; ++i)
#pragma unroll
    for (int j = 0; j < columns; ++j)
      to[(own_row() + i) * stride + j * attention_side + static_cast<int>(threadIdx.x)] =
          weights[i][j];
}

/// Two columns of every 32 of the rows that a thread owns.
template <int width>
using OwnResults = float[attention_own][width / attention_side];

/// results[i] += sum over n of weights(own row i, n) * (row n of b)
template <int columns, int width>
__device__ __forceinline__ void multiply_weights(const float* weights, const float* b,
                                                 OwnResults<width>& results) {
  constexpr int count = columns * attention_side, pairs = width / (2 * attention_side);
  const float* w_rows = weights + own_row() * attention_stride(count);
  const float* b_column = b + 2 * static_cast<int>(threadIdx.x);
#pragma unroll 2
  for (int n = 0; n < count; n += 4) {
    Vec<float, 4> w[attention_own];
#pragma unroll
    for (int i = 0; i < attention_own; ++i)
      w[i] = load<4>(w_rows + i * attention_stride(count) + n);
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int j = 0; j < pairs; ++j) {
        const Vec<float, 2> v =
            load<2>(b_column + (n + k) * attention_stride(width) + 2 * attention_side * j);
#pragma unroll
        for (int i = 0; i < attention_own; ++i) {
          results[i][2 * j] += w[i].values[k] * v.values[0];
          results[i][2 * j + 1] += w[i].values[k] * v.values[1];
        }
      }
  }
}

/// Rows `first` + own rows of `to`: results, assigned or added.
template <int width, class T>
__device__ __forceinline__ void store_results(HeadRows<T> to, const OwnResults<width>& results,
                                              int first, const AttentionShape& s, bool aligned,
                                              Write write) {
  const int head_dim = static_cast<int>(s.head_dim);
#pragma unroll
  for (int i = 0; i < attention_own; ++i) {
    const int row = first + own_row() + i;
    if (row >= static_cast<int>(s.sequence)) continue;
#pragma unroll
    for (int j = 0; j < width / (2 * attention_side); ++j) {
      const int column = 2 * (static_cast<int>(threadIdx.x) + attention_side * j);
      T* y = to.row(row) + column;
      Vec<float, 2> values{{results[i][2 * j], results[i][2 * j + 1]}};
      if (aligned && column < head_dim) {
        if (write == Write::add) {
          const Vec<float, 2> old = load_floats<2>(y);
          values.values[0] += old.values[0];
          values.values[1] += old.values[1];
        }
        store_floats(y, values);
      } else {
        for (int k = 0; k < 2; ++k)
          if (column + k < head_dim)
            y[k] = from_float<T>(write == Write::add ? to_float(y[k]) + values.values[k]
                                                     : values.values[k]);
      }
    }
  }
}

}  // namespace trireme::kernels::gpu
