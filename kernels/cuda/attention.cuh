// What attention's kernels share around their arithmetic (attention_tiles.cuh): where heads lie,
// and which rows a block takes. A block of 16 x 16 threads works on 64 rows.
// The kernels for tensor cores have files of their own.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "trireme/kernels/attention.h"

#include "kernels/cuda/gpu.cuh"

namespace trireme::kernels::gpu {

inline constexpr int attention_threads = attention_side * attention_side;
inline constexpr float log2_e = 1.44269504088896340736f;

/// Rows of one head in a packed array. Counts are int in these kernels, which are short of
/// registers (attention_grid checks).
template <class T>
struct HeadRows {
  T* data;
  int stride;
  __device__ T* row(int token) const { return data + static_cast<Index>(token) * stride; }
};

/// Says where the heads of a batch entry are. T is the storage type, maybe const.
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
  /// Returns the rows of y or dy, which hold query heads only.
  template <class U>
  __device__ HeadRows<U> output(U* y, Index batch, Index h) const {
    const Index stride = shape.query_heads * shape.head_dim;
    return {y + batch * shape.sequence * stride + h * shape.head_dim, static_cast<int>(stride)};
  }
};

/// What kernels are given, by value. T: the storage type.
template <class T>
struct AttentionForwardArguments {
  AttentionArrays<const T> in;
  T* y;
  float* logsumexp;
  float scale;
  int together;
};
template <class T>
struct AttentionBackwardArguments {
  AttentionArrays<const T> in;
  AttentionArrays<T> gradients;
  const T *y, *dy;
  const float* logsumexp;
  float* delta;  // dy . y: (batch, query_heads, sequence), as logsumexp
  float scale;
  Write write;
  int queries_together, keys_together;
};

/// Which rows a block works on. Causal: the later the queries, the more work, so the longest come
/// first (`latest_first`), but only among as many (batch, head) pairs as have their streamed data
/// in the L2 cache at once: with the blocks of all pairs interleaved, each block would fetch it
/// from memory again.
struct AttentionBlock {
  int first, head, batch;
};
enum class BlockOrder { latest_first, earliest_first };
inline constexpr Index attention_cached_bytes =
    Index{16} << 20;  // less than half of the L2 cache of sm_80, a third on sm_90

/// The place of block `index` of `blocks` for each of `pairs`; `together`: pairs whose blocks are
/// interleaved.
struct BlockPlace {
  int block, pair;
};
__host__ __device__ __forceinline__ BlockPlace block_place(int index, int blocks, int pairs,
                                                           int together) {
  const int first_pair = index / blocks / together * together;
  const int left = pairs - first_pair, here = left < together ? left : together;
  const int within = index - first_pair * blocks;
  return {within / here, first_pair + within % here};
}

/// `together`: of pairs_together.
template <BlockOrder order, int rows = attention_rows>
__device__ __forceinline__ AttentionBlock attention_block(const AttentionShape& s, Index heads,
                                                          int together) {
  const int blocks = static_cast<int>((s.sequence + rows - 1) / rows);
  const int pairs = static_cast<int>(heads * s.batch);
  const BlockPlace place = block_place(static_cast<int>(blockIdx.x), blocks, pairs, together);
  return {(order == BlockOrder::latest_first ? blocks - 1 - place.block : place.block) * rows,
          place.pair % static_cast<int>(heads), place.pair / static_cast<int>(heads)};
}
/// `heads` own the rows; two arrays of `passing` heads are streamed.
inline int pairs_together(const AttentionShape& s, Index heads, Index passing,
                          Index element_bytes) {
  const Index cached =
      attention_cached_bytes * heads / (2 * s.sequence * s.head_dim * passing * element_bytes);
  return static_cast<int>(std::clamp<Index>(cached, 1, std::max<Index>(1, heads * s.batch)));
}
inline dim3 attention_grid(const AttentionShape& s, Index heads, int rows = attention_rows) {
  constexpr Index most = std::numeric_limits<int>::max();
  const Index blocks = (s.sequence + rows - 1) / rows * heads * s.batch;
  const Index row = (s.query_heads + 2 * s.kv_heads) * s.head_dim;
  require(blocks <= most && s.sequence <= most - rows && row <= most / rows,
          "attention over batch ", s.batch, ", sequence ", s.sequence, ", ", s.query_heads,
          " query heads and ", s.kv_heads, " key and value heads is too much for one launch");
  return dim3(static_cast<unsigned>(blocks));
}

/// Whether heads can be loaded and stored 16 bytes at a time.
inline bool attention_aligned(const AttentionShape& s, std::initializer_list<const void*> arrays) {
  bool aligned = s.head_dim % 8 == 0;
  for (const void* array : arrays) aligned = aligned && aligned16(array);
  return aligned;
}

inline float attention_scale(const AttentionShape& s) {
  return 1.0f / std::sqrt(static_cast<float>(s.head_dim));
}

template <class T>
AttentionForwardArguments<T> attention_arguments(const AttentionForward& p) {
  const bool aligned = attention_aligned(p.shape, {p.qkv, p.y});
  return {{p.shape, static_cast<const T*>(p.qkv), aligned},
          static_cast<T*>(p.y),
          p.logsumexp,
          attention_scale(p.shape),
          pairs_together(p.shape, p.shape.query_heads, p.shape.kv_heads, sizeof(T))};
}
template <class T>
AttentionBackwardArguments<T> attention_arguments(const AttentionBackward& p) {
  const bool aligned = attention_aligned(p.shape, {p.qkv, p.y, p.dy, p.dqkv});
  return {{p.shape, static_cast<const T*>(p.qkv), aligned},
          {p.shape, static_cast<T*>(p.dqkv), aligned},
          static_cast<const T*>(p.y),
          static_cast<const T*>(p.dy),
          p.logsumexp,
          static_cast<float*>(p.workspace),
          attention_scale(p.shape),
          p.write,
          pairs_together(p.shape, p.shape.query_heads, p.shape.kv_heads, sizeof(T)),
          pairs_together(p.shape, p.shape.kv_heads, p.shape.query_heads, sizeof(T))};
}

}  // namespace trireme::kernels::gpu

namespace trireme::kernels {

// Shapes are checked. In fp32 on the ordinary cores, whatever the storage:
void attention_forward_simt(Stream& stream, const AttentionForward& p);
void attention_backward_simt(Stream& stream, const AttentionBackward& p);
// bf16 on tensor cores, for heads of 32, 64, 96 and 128; arrays are aligned to 16 bytes.
void attention_forward_mma(Stream& stream, const AttentionForward& p);
void attention_backward_mma(Stream& stream, const AttentionBackward& p);
/// dy . y of each query, which both backward passes read, into the workspace.
void attention_delta(Stream& stream, const AttentionBackward& p);

}  // namespace trireme::kernels
