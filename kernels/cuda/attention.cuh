// What attention's fp32 kernels share. A block of 16 x 16 threads holds 64 rows of one matrix in shared memory and streams
// blocks of rows of another past them. A thread owns 4 of the 64 rows: their scores against every 16th streamed row, and
// every 16th pair of columns of their results. The kernels for tensor cores have files of their own beside these.
#pragma once

#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "trireme/kernels/attention.h"

#include "kernels/cuda/gpu.cuh"

namespace trireme::gpu {

inline constexpr int attention_side = 16;                              // threads
inline constexpr int attention_own = 4;                                // rows of a thread
inline constexpr int attention_rows = attention_side * attention_own;  // rows of a block
inline constexpr int attention_threads = attention_side * attention_side;
inline constexpr float log2_e = 1.44269504088896340736f;

/// Floats from one row to the next: rows that 8 neighbours read at once, 16 bytes each, lie in different banks.
constexpr int attention_stride(int columns) { return columns + 4; }

/// The first of this thread's rows.
__device__ __forceinline__ int own_row() { return static_cast<int>(threadIdx.y) * attention_own; }

/// Rows of one head in a packed array. Counts are int in these kernels, which are short of registers (attention_grid checks).
template <class T>
struct HeadRows {
  T* data;
  int stride;
  __device__ T* row(int token) const { return data + static_cast<Index>(token) * stride; }
};

/// Where the heads of a batch entry are. T is the storage type, maybe const.
template <class T>
struct AttentionArrays {
  AttentionShape shape;
  T* qkv;
  bool aligned;  // rows may be read and written 16 bytes at once

  __device__ HeadRows<T> head(Index batch, Index packed_head) const {
    const Index stride = (shape.query_heads + 2 * shape.kv_heads) * shape.head_dim;
    return {qkv + batch * shape.sequence * stride + packed_head * shape.head_dim,
            static_cast<int>(stride)};
  }
  __device__ HeadRows<T> query(Index batch, Index h) const { return head(batch, h); }
  __device__ HeadRows<T> key(Index batch, Index kv) const {
    return head(batch, shape.query_heads + kv);
  }
  __device__ HeadRows<T> value(Index batch, Index kv) const {
    return head(batch, shape.query_heads + shape.kv_heads + kv);
  }
  /// The same for y and dy, whose rows hold query heads only.
  template <class U>
  __device__ HeadRows<U> output(U* y, Index batch, Index h) const {
    const Index stride = shape.query_heads * shape.head_dim;
    return {y + batch * shape.sequence * stride + h * shape.head_dim, static_cast<int>(stride)};
  }
};

/// Which rows a block works on. Causal: the later the queries, the more work, so the longest come first (`latest_first`).
struct AttentionBlock {
  int first, head, batch;
};
enum class BlockOrder { latest_first, earliest_first };
template <BlockOrder order>
__device__ __forceinline__ AttentionBlock attention_block(const AttentionShape& s, Index heads) {
  const int blocks = static_cast<int>((s.sequence + attention_rows - 1) / attention_rows);
  const int pairs = static_cast<int>(heads * s.batch), index = static_cast<int>(blockIdx.x);
  const int block = index / pairs, pair = index % pairs;
  return {(order == BlockOrder::latest_first ? blocks - 1 - block : block) * attention_rows,
          pair % static_cast<int>(heads), pair / static_cast<int>(heads)};
}
inline dim3 attention_grid(const AttentionShape& s, Index heads) {
  constexpr Index most = std::numeric_limits<int>::max();
  const Index blocks = (s.sequence + attention_rows - 1) / attention_rows * heads * s.batch;
  const Index row = (s.query_heads + 2 * s.kv_heads) * s.head_dim;
  require(blocks <= most && s.sequence <= most - attention_rows && row <= most / attention_rows,
          "attention over batch ", s.batch, ", sequence ", s.sequence, ", ", s.query_heads,
          " query heads and ", s.kv_heads, " key and value heads is too much for one launch");
  return dim3(static_cast<unsigned>(blocks));
}

/// `count` rows from row `first` on, as floats in shared memory; zeros beyond the sequence and the head's width.
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
    Chunk<float, pack> values{};
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
    Chunk<float, 4> x[attention_own], y[columns];
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
    Chunk<float, 4> w[attention_own];
#pragma unroll
    for (int i = 0; i < attention_own; ++i)
      w[i] = load<4>(w_rows + i * attention_stride(count) + n);
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int j = 0; j < pairs; ++j) {
        const Chunk<float, 2> v =
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
      Chunk<float, 2> values{{results[i][2 * j], results[i][2 * j + 1]}};
      if (aligned && column < head_dim) {
        if (write == Write::add) {
          const Chunk<float, 2> old = load_floats<2>(y);
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

/// launch(std::integral_constant<int, width>) with the least width of 32, 64, 96, 128 that holds the heads.
template <class F>
void for_head_width(const AttentionShape& s, F launch) {
  if (s.head_dim <= 32) return launch(std::integral_constant<int, 32>());
  if (s.head_dim <= 64) return launch(std::integral_constant<int, 64>());
  if (s.head_dim <= 96) return launch(std::integral_constant<int, 96>());
  launch(std::integral_constant<int, 128>());
}

/// May heads be moved 16 bytes at once?
inline bool attention_aligned(const AttentionShape& s, std::initializer_list<const void*> arrays) {
  bool aligned = s.head_dim % 8 == 0;
  for (const void* array : arrays) aligned = aligned && aligned16(array);
  return aligned;
}

inline float attention_scale(const AttentionShape& s) {
  return 1.0f / std::sqrt(static_cast<float>(s.head_dim));
}

}  // namespace trireme::gpu

namespace trireme {

// fp32 on the ordinary cores; shapes are checked.
void attention_forward_simt(Stream& stream, const AttentionForward& p);
void attention_backward_simt(Stream& stream, const AttentionBackward& p);

}  // namespace trireme
