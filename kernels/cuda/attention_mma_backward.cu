// Flash attention backward on tensor cores (Dao 2023, arXiv:2307.08691, algorithm 2), after
// attention_delta.cu, without atomics: one kernel for the gradient of the queries, which passes
// over keys and values, and one for those of keys and values, which passes over the queries of each
// head of their group. Both recompute the weights from the saved logsumexp. The streamed data is
// double-buffered: one tile is used while the next one loads. Weights and slopes are rounded to
// bf16 for their products.
#include "kernels/cuda/attention_mma.cuh"

namespace trireme::kernels {
namespace gpu {

template <int width>
using QueryGradientTiles = MmaTiles<2, width <= 32 ? 64 : 32>;
template <int width>
using KeyGradientTiles = MmaTiles<width <= 32 ? 2 : 1, width == 32 || width == 128 ? 32 : 64>;

/// Own rows of two arrays; twice streamed rows of two.
template <int width, class Tiles>
constexpr int backward_mma_shared_bytes() {
  return (2 * Tiles::block_rows + 4 * Tiles::streamed) * width * 2;
}

/// A value that is the same in all lanes. With this hint the compiler needs fewer registers here.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(all_lanes, value, 0); }

/// The first or second array's tile of step i: after the block's own rows, alternating between two
/// buffers.
template <int width, class Tiles>
__device__ __forceinline__ MmaTile<width> streamed_tile(__nv_bfloat16* shared, int i, int array) {
  return {shared + (2 * Tiles::block_rows + (i % 2 * 2 + array) * Tiles::streamed) * width};
}

template <int width>
__global__ void __launch_bounds__(mma_threads, 2)
    attention_queries_mma_kernel(AttentionBackwardArguments<__nv_bfloat16> p) {
  using Tiles = QueryGradientTiles<width>;
  constexpr int own = Tiles::own, columns = Tiles::streamed;
  __shared__ float numbers[2][Tiles::block_rows];  // logsumexp and delta of the block's queries
  const AttentionShape& s = p.in.shape;
  const int sequence = static_cast<int>(s.sequence);
  GPU_DYNAMIC_SHARED(__nv_bfloat16, shared);
  const MmaTile<width> queries{shared}, dy{shared + Tiles::block_rows * width};

  const AttentionBlock block = attention_block<BlockOrder::latest_first, Tiles::block_rows>(
      s, s.query_heads, p.queries_together);
  const int kv = block.head / static_cast<int>(s.query_heads / s.kv_heads);
  const int warp_row = uniform(mma_warp()) * Tiles::warp_rows, first_query = block.first + warp_row;
  const HeadRows<const __nv_bfloat16> all_keys = p.in.key(block.batch, kv);
  const HeadRows<const __nv_bfloat16> all_values = p.in.value(block.batch, kv);
  const auto keys = [=](int i) { return streamed_tile<width, Tiles>(shared, i, 0); };
  const auto values = [=](int i) { return streamed_tile<width, Tiles>(shared, i, 1); };
  const auto copy_streamed = [=](int i) {
    copy_rows<columns>(keys(i), all_keys, i * columns, sequence);
    copy_rows<columns>(values(i), all_values, i * columns, sequence);
    gpu_copy_commit();
  };
  copy_rows<Tiles::block_rows>(queries, p.in.query(block.batch, block.head), block.first, sequence);
  copy_rows<Tiles::block_rows>(dy, p.in.output(p.dy, block.batch, block.head), block.first,
                               sequence);
  copy_streamed(0);

  // Kept in shared memory, not in registers, of which products want all.
  const Index head_at = (block.batch * s.query_heads + block.head) * s.sequence;
  for (int row = mma_thread(); row < Tiles::block_rows; row += mma_threads) {
    const int query = block.first + row;
    numbers[0][row] = query < sequence ? p.logsumexp[head_at + query] * log2_e : 0.0f;
    numbers[1][row] = query < sequence ? p.delta[head_at + query] : 0.0f;
  }

  const float scale = p.scale * log2_e;
  MmaSums<own, width> gradient = {};
  const int after_block = block.first + Tiles::block_rows;
  const int keys_end = after_block < sequence ? after_block : sequence;
  for (int i = 0; i * columns < keys_end; ++i) {
    const int first_key = i * columns;
    gpu_copy_wait<0>();
    __syncthreads();  // this tile is there; the one before is used
    if (first_key + columns < keys_end) copy_streamed(i + 1);
    if (first_key >= first_query + Tiles::warp_rows || first_query >= sequence) continue;
    MmaSums<own, columns> scores, slopes;
    multiply_transposed<own, columns>(queries, warp_row, keys(i), scores);
    multiply_transposed<own, columns>(dy, warp_row, values(i), slopes);
#pragma unroll
    for (int m = 0; m < own; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row + m * mma_rows + half * 8 + mma_lane() / 4;
        const float shift = numbers[0][row], delta = numbers[1][row];
#pragma unroll
        for (int n = 0; n < columns / mma_columns; ++n)
#pragma unroll
          for (int j = 2 * half; j < 2 * half + 2; ++j)
            slopes[m][n][j] = gpu_exp2(scores[m][n][j] * scale - shift) * (slopes[m][n][j] - delta);
      }
    if (first_key + columns > first_query + 1)  // it reaches beyond the diagonal
      each_sum<own, columns>(slopes, [=](float& slope, int row, int column) {
        if (first_key + column > first_query + row) slope = 0;
      });
    multiply_weights<own, columns>(slopes, keys(i), gradient);
  }

  if (first_query >= sequence) return;
  each_sum<own, width>(gradient, [&](float& x, int, int) { x *= p.scale; });
  store_sums<own, width>(gradient, queries, warp_row, p.gradients.query(block.batch, block.head),
                         first_query, sequence, p.write);
}

/// Scores are transposed here, keys times queries, so that weights come out as
/// left operands of both products.
template <int width>
__global__ void __launch_bounds__(mma_threads, 2)
    attention_keys_mma_kernel(AttentionBackwardArguments<__nv_bfloat16> p) {
  using Tiles = KeyGradientTiles<width>;
  constexpr int own = Tiles::own, columns = Tiles::streamed;
  __shared__ float numbers[2][2][columns];  // logsumexp and delta of the streamed queries
  const AttentionShape& s = p.in.shape;
  const int sequence = static_cast<int>(s.sequence);
  GPU_DYNAMIC_SHARED(__nv_bfloat16, shared);
  const MmaTile<width> keys{shared}, values{shared + Tiles::block_rows * width};

  const AttentionBlock block = attention_block<BlockOrder::earliest_first, Tiles::block_rows>(
      s, s.kv_heads, p.keys_together);
  const int warp_row = uniform(mma_warp()) * Tiles::warp_rows, first_key = block.first + warp_row;
  // Step i: the queries from step_query(i) on of head step_head(i). Every head
  // begins at the block's diagonal.
  const int group = static_cast<int>(s.query_heads / s.kv_heads);
  const int steps_of_head = (sequence - block.first + columns - 1) / columns;
  const auto step_head = [=](int i) { return block.head * group + i / steps_of_head; };
  const auto step_query = [=](int i) { return block.first + i % steps_of_head * columns; };
  const auto queries = [=](int i) { return streamed_tile<width, Tiles>(shared, i, 0); };
  const auto dy = [=](int i) { return streamed_tile<width, Tiles>(shared, i, 1); };
  const auto copy_streamed = [&](int i) {
    const int head = step_head(i), first_query = step_query(i);
    copy_rows<columns>(queries(i), p.in.query(block.batch, head), first_query, sequence);
    copy_rows<columns>(dy(i), p.in.output(p.dy, block.batch, head), first_query, sequence);
    if (mma_thread() < 2 * columns) {
      const int number = mma_thread() / columns, column = mma_thread() % columns;
      const float* from =
          (number == 0 ? p.logsumexp : p.delta) + (block.batch * s.query_heads + head) * s.sequence;
      const bool present = first_query + column < sequence;
      gpu_copy_async<4>(&numbers[i % 2][number][column],
                        from + (present ? first_query + column : 0), present);
    }
    gpu_copy_commit();
  };
  copy_rows<Tiles::block_rows>(keys, p.in.key(block.batch, block.head), block.first, sequence);
  copy_rows<Tiles::block_rows>(values, p.in.value(block.batch, block.head), block.first, sequence);
  copy_streamed(0);

  MmaSums<own, width> key_gradient = {}, value_gradient = {};
  const float scale = p.scale * log2_e;
  const int steps = group * steps_of_head;
  for (int i = 0; i < steps; ++i) {
    const int first_query = step_query(i);
    gpu_copy_wait<0>();
    __syncthreads();  // this tile is there; the one before is used
    if (i + 1 < steps) copy_streamed(i + 1);
    if (first_query + columns <= first_key || first_key >= sequence) continue;
    MmaSums<own, columns> weights, slopes;
    multiply_transposed<own, columns>(keys, warp_row, queries(i), weights);
    multiply_transposed<own, columns>(values, warp_row, dy(i), slopes);
    // Queries beyond the sequence are zeros, and so is what they add.
#pragma unroll
    for (int n = 0; n < columns / mma_columns; ++n)
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const int column = n * mma_columns + mma_lane() % 4 * 2 + side;
        const float shift = numbers[i % 2][0][column] * log2_e;
        const float delta = numbers[i % 2][1][column];
#pragma unroll
        for (int m = 0; m < own; ++m)
#pragma unroll
          for (int j = side; j < 4; j += 2) {
            const int row = m * mma_rows + mma_lane() / 4 + j / 2 * 8;
            const bool seen = first_query + column >= first_key + row;
            const float weight = seen ? gpu_exp2(weights[m][n][j] * scale - shift) : 0.0f;
            weights[m][n][j] = weight;
            slopes[m][n][j] = weight * (slopes[m][n][j] - delta);
          }
      }
    multiply_weights<own, columns>(weights, dy(i), value_gradient);
    multiply_weights<own, columns>(slopes, queries(i), key_gradient);
  }

  if (first_key >= sequence) return;
  each_sum<own, width>(key_gradient, [&](float& x, int, int) { x *= p.scale; });
  store_sums<own, width>(key_gradient, keys, warp_row, p.gradients.key(block.batch, block.head),
                         first_key, sequence, p.write);
  store_sums<own, width>(value_gradient, values, warp_row,
                         p.gradients.value(block.batch, block.head), first_key, sequence, p.write);
}

}  // namespace gpu

void attention_backward_mma(Stream& stream, const AttentionBackward& p) {
  attention_delta(stream, p);
  const auto arguments = gpu::attention_arguments<__nv_bfloat16>(p);
  gpu::for_head_width(p.shape.head_dim, [&](auto width) {
    constexpr int w = decltype(width)::value;
    using QueryTiles = gpu::QueryGradientTiles<w>;
    using KeyTiles = gpu::KeyGradientTiles<w>;
    check(gpu_launch(gpu::attention_queries_mma_kernel<w>,
                     gpu::attention_grid(p.shape, p.shape.query_heads, QueryTiles::block_rows),
                     dim3(gpu::mma_threads), (gpu::backward_mma_shared_bytes<w, QueryTiles>()),
                     cuda_stream_of(stream), arguments),
          "attention gradient");
    check(gpu_launch(gpu::attention_keys_mma_kernel<w>,
                     gpu::attention_grid(p.shape, p.shape.kv_heads, KeyTiles::block_rows),
                     dim3(gpu::mma_threads), (gpu::backward_mma_shared_bytes<w, KeyTiles>()),
                     cuda_stream_of(stream), arguments),
          "attention gradient");
  });
}

}  // namespace trireme::kernels
