// Flash attention forward on tensor cores (Dao 2023, arXiv:2307.08691, algorithm 1): a block takes
// 128 queries of one head, 32 a warp, and passes over the keys and values before them. Of a block's
// two tiles, keys and values, one is used while the other one loads. Scores and running sums are
// fp32; weights are rounded to bf16 for their product with the values.
#include "kernels/cuda/attention_mma.cuh"

namespace trireme::kernels {
namespace gpu {

template <int width>
using ForwardTiles = MmaTiles<2, width <= 64 ? 64 : 32>;

/// Queries; keys; values.
template <int width>
constexpr int forward_mma_shared_bytes() {
  return (ForwardTiles<width>::block_rows + 2 * ForwardTiles<width>::streamed) * width * 2;
}

/// Over the four lanes that share a row, in a fixed order.
template <class Op>
__device__ __forceinline__ float reduce_quad(float value, Op op) {
  value = op(value, __shfl_xor_sync(all_lanes, value, 1));
  return op(value, __shfl_xor_sync(all_lanes, value, 2));
}

/// Of the two rows of each 16 that a lane has a part of.
template <int own>
using RowNumbers = float[own][2];

/// Turns scores into weights relative to the largest score so far, and scales
/// what was gathered before to it. `scale` is that of scores times log2(e).
/// `total`: of this lane's columns.
template <int own, int columns, int width>
__device__ __forceinline__ void update_softmax(MmaSums<own, columns>& scores,
                                               RowNumbers<own>& largest, RowNumbers<own>& total,
                                               MmaSums<own, width>& results, float scale) {
#pragma unroll
  for (int m = 0; m < own; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float row_largest = largest[m][half];
#pragma unroll
      for (int n = 0; n < columns / mma_columns; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i)
          row_largest = Max()(scores[m][n][i], row_largest);
      row_largest = reduce_quad(row_largest, Max());  // finite: every query sees key 0
      const float shift = row_largest * scale;
      const float factor = gpu_exp2(largest[m][half] * scale - shift);
      largest[m][half] = row_largest;
      total[m][half] *= factor;
#pragma unroll
      for (int n = 0; n < columns / mma_columns; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[m][n][i] = gpu_exp2(scores[m][n][i] * scale - shift);
          total[m][half] += scores[m][n][i];
        }
#pragma unroll
      for (int n = 0; n < width / mma_columns; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) results[m][n][i] *= factor;
    }
}

/// Divides by the rows' totals, and writes their logsumexp.
template <int own, int width>
__device__ __forceinline__ void finish_softmax(const RowNumbers<own>& largest,
                                               const RowNumbers<own>& total,
                                               MmaSums<own, width>& results, float scale,
                                               float* logsumexp, int first, int sequence) {
#pragma unroll
  for (int m = 0; m < own; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = reduce_quad(total[m][half], Sum()), factor = 1.0f / sum;
#pragma unroll
      for (int n = 0; n < width / mma_columns; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) results[m][n][i] *= factor;
      const int query = first + m * mma_rows + half * 8 + mma_lane() / 4;
      if (mma_lane() % 4 == 0 && query < sequence)
        logsumexp[query] = largest[m][half] * scale + logf(sum);
    }
}

template <int width>
__global__ void __launch_bounds__(mma_threads, 2)
    attention_forward_mma_kernel(AttentionForwardArguments<__nv_bfloat16> p) {
  using Tiles = ForwardTiles<width>;
  constexpr int own = Tiles::own, columns = Tiles::streamed;
  const AttentionShape& s = p.in.shape;
  const int sequence = static_cast<int>(s.sequence);
  GPU_DYNAMIC_SHARED(__nv_bfloat16, shared);
  const MmaTile<width> queries{shared}, keys{shared + Tiles::block_rows * width};
  const MmaTile<width> values{keys.data + columns * width};

  const AttentionBlock block =
      attention_block<BlockOrder::latest_first, Tiles::block_rows>(s, s.query_heads, p.together);
  const int kv = block.head / static_cast<int>(s.query_heads / s.kv_heads);
  const int warp_row = mma_warp() * Tiles::warp_rows, first_query = block.first + warp_row;
  const HeadRows<const __nv_bfloat16> all_keys = p.in.key(block.batch, kv);
  const HeadRows<const __nv_bfloat16> all_values = p.in.value(block.batch, kv);
  copy_rows<Tiles::block_rows>(queries, p.in.query(block.batch, block.head), block.first, sequence);
  copy_rows<columns>(keys, all_keys, 0, sequence);
  gpu_copy_commit();

  MmaSums<own, width> results = {};
  RowNumbers<own> largest, total = {};
#pragma unroll
  for (int m = 0; m < own; ++m) largest[m][0] = largest[m][1] = -INFINITY;

  const int after_block = block.first + Tiles::block_rows;
  const int keys_end = after_block < sequence ? after_block : sequence;
  for (int first_key = 0; first_key < keys_end; first_key += columns) {
    const bool sees = first_key < first_query + Tiles::warp_rows && first_query < sequence;
    MmaSums<own, columns> scores;
    gpu_copy_wait<0>();
    __syncthreads();  // the keys are there; the values before are used
    copy_rows<columns>(values, all_values, first_key, sequence);
    gpu_copy_commit();
    if (sees) {
      multiply_transposed<own, columns>(queries, warp_row, keys, scores);
      if (first_key + columns > first_query + 1)  // it reaches beyond the diagonal
        each_sum<own, columns>(scores, [=](float& score, int row, int column) {
          if (first_key + column > first_query + row) score = -INFINITY;
        });
    }
    gpu_copy_wait<0>();
    __syncthreads();  // the values are there; the keys are used
    if (first_key + columns < keys_end) {
      copy_rows<columns>(keys, all_keys, first_key + columns, sequence);
      gpu_copy_commit();
    }
    if (sees) {
      update_softmax<own, columns, width>(scores, largest, total, results, p.scale * log2_e);
      multiply_weights<own, columns>(scores, values, results);
    }
  }

  if (first_query >= sequence) return;
  finish_softmax<own, width>(largest, total, results, p.scale,
                             p.logsumexp + (block.batch * s.query_heads + block.head) * s.sequence,
                             first_query, sequence);
  store_sums<own, width>(results, queries, warp_row, p.in.output(p.y, block.batch, block.head),
                         first_query, sequence, Write::assign);
}

}  // namespace gpu

void attention_forward_mma(Stream& stream, const AttentionForward& p) {
  gpu::for_head_width(p.shape.head_dim, [&](auto width) {
    constexpr int w = decltype(width)::value;
    check(gpu_launch(
              gpu::attention_forward_mma_kernel<w>,
              gpu::attention_grid(p.shape, p.shape.query_heads, gpu::ForwardTiles<w>::block_rows),
              dim3(gpu::mma_threads), gpu::forward_mma_shared_bytes<w>(), cuda_stream_of(stream),
              gpu::attention_arguments<__nv_bfloat16>(p)),
          "attention");
  });
}

}  // namespace trireme::kernels
