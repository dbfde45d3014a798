// Flash attention backward in fp32 arithmetic, in two kernels after attention_delta.cu and without
// atomics: the gradient of the queries, one block each; the gradients of keys and values, one block
// each, which loops over the query heads of their group. Weights are recomputed from the saved
// logsumexp. Formulas: Dao 2023 (arXiv:2307.08691), algorithm 2.
#include "kernels/cuda/attention_tiles.cuh"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

/// The weight of a score; zero where the key comes after the query, or there is no such query.
__device__ __forceinline__ float weight_of(float score, int query, int key, int sequence,
                                           float logsumexp, float scale) {
  return key > query || query >= sequence ? 0.0f : exp2f((score * scale - logsumexp) * log2_e);
}

template <class T, int width>
__global__ void __launch_bounds__(attention_threads, 2)
    attention_queries_kernel(AttentionBackwardArguments<T> p) {
  constexpr int columns = backward_columns<width>, streamed = backward_streamed<width>;
  const AttentionShape& s = p.in.shape;
  const int sequence = static_cast<int>(s.sequence);
  GPU_DYNAMIC_SHARED(float, queries);
  float* const dy = queries + attention_rows * attention_stride(width);
  float* const keys = dy + attention_rows * attention_stride(width);
  float* const values = keys + streamed * attention_stride(width);
  float* const weights = values + streamed * attention_stride(width);

  const AttentionBlock block =
      attention_block<BlockOrder::latest_first>(s, s.query_heads, p.queries_together);
  const int kv = block.head / static_cast<int>(s.query_heads / s.kv_heads);
  load_rows<attention_rows, width>(queries, p.in.query(block.batch, block.head), block.first, s,
                                   p.in.aligned);
  load_rows<attention_rows, width>(dy, p.in.output(p.dy, block.batch, block.head), block.first, s,
                                   p.in.aligned);
  const Index head_at = (block.batch * s.query_heads + block.head) * s.sequence;
  float logsumexp[attention_own] = {}, delta[attention_own] = {};
#pragma unroll
  for (int i = 0; i < attention_own; ++i) {
    const int query = block.first + own_row() + i;
    if (query < sequence) {
      logsumexp[i] = p.logsumexp[head_at + query];
      delta[i] = p.delta[head_at + query];
    }
  }

  OwnResults<width> gradient = {};
  for (int first_key = 0; first_key < block.first + attention_rows && first_key < sequence;
       first_key += streamed) {
    __syncthreads();  // the block before is used
    load_rows<streamed, width>(keys, p.in.key(block.batch, kv), first_key, s, p.in.aligned);
    load_rows<streamed, width>(values, p.in.value(block.batch, kv), first_key, s, p.in.aligned);
    __syncthreads();
    float scores[attention_own][columns], slopes[attention_own][columns];
    multiply_rows<columns, width>(queries, keys, scores);
    multiply_rows<columns, width>(dy, values, slopes);
#pragma unroll
    for (int i = 0; i < attention_own; ++i)
#pragma unroll
      for (int j = 0; j < columns; ++j) {
        const int key = first_key + static_cast<int>(threadIdx.x) + attention_side * j;
        const float weight = weight_of(scores[i][j], block.first + own_row() + i, key, sequence,
                                       logsumexp[i], p.scale);
        scores[i][j] = weight * (slopes[i][j] - delta[i]) * p.scale;
      }
    put_weights(weights, scores);
    __syncwarp();  // a row's weights are made and used by 16 threads of one warp
    multiply_weights<columns, width>(weights, keys, gradient);
  }
  store_results<width>(p.gradients.query(block.batch, block.head), gradient, block.first, s,
                       p.in.aligned, p.write);
}

template <class T, int width>
__global__ void __launch_bounds__(attention_threads, 2)
    attention_keys_kernel(AttentionBackwardArguments<T> p) {
  constexpr int columns = backward_columns<width>, streamed = backward_streamed<width>;
  const AttentionShape& s = p.in.shape;
  const int sequence = static_cast<int>(s.sequence);
  GPU_DYNAMIC_SHARED(float, keys);
  float* const values = keys + attention_rows * attention_stride(width);
  float* const queries = values + attention_rows * attention_stride(width);
  float* const dy = queries + streamed * attention_stride(width);
  float* const weights = dy + streamed * attention_stride(width);
  float* const logsumexp = weights + attention_rows * attention_stride(streamed);
  float* const delta = logsumexp + streamed;

  const AttentionBlock block =
      attention_block<BlockOrder::earliest_first>(s, s.kv_heads, p.keys_together);
  load_rows<attention_rows, width>(keys, p.in.key(block.batch, block.head), block.first, s,
                                   p.in.aligned);
  load_rows<attention_rows, width>(values, p.in.value(block.batch, block.head), block.first, s,
                                   p.in.aligned);

  OwnResults<width> key_gradient = {}, value_gradient = {};
  const int group = static_cast<int>(s.query_heads / s.kv_heads);
  for (int head = block.head * group; head < (block.head + 1) * group; ++head)
    for (int first_query = block.first; first_query < sequence; first_query += streamed) {
      __syncthreads();  // the block before is used
      load_rows<streamed, width>(queries, p.in.query(block.batch, head), first_query, s,
                                 p.in.aligned);
      load_rows<streamed, width>(dy, p.in.output(p.dy, block.batch, head), first_query, s,
                                 p.in.aligned);
      const int thread =
          static_cast<int>(threadIdx.y) * attention_side + static_cast<int>(threadIdx.x);
      if (thread < streamed && first_query + thread < sequence) {
        const Index at = (block.batch * s.query_heads + head) * s.sequence + first_query + thread;
        logsumexp[thread] = p.logsumexp[at];
        delta[thread] = p.delta[at];
      }
      __syncthreads();
      float scores[attention_own][columns], slopes[attention_own][columns];
      multiply_rows<columns, width>(keys, queries, scores);
      multiply_rows<columns, width>(values, dy, slopes);
#pragma unroll
      for (int j = 0; j < columns; ++j) {
        const int column = static_cast<int>(threadIdx.x) + attention_side * j;
        const int query = first_query + column;
        const bool is_query = query < sequence;
        const float sum = is_query ? logsumexp[column] : 0.0f;
        const float mean_slope = is_query ? delta[column] : 0.0f;
#pragma unroll
        for (int i = 0; i < attention_own; ++i) {
          scores[i][j] =
              weight_of(scores[i][j], query, block.first + own_row() + i, sequence, sum, p.scale);
          slopes[i][j] = scores[i][j] * (slopes[i][j] - mean_slope) * p.scale;
        }
      }
      put_weights(weights, scores);
      __syncwarp();  // a row's weights are made and used by 16 threads of one warp
      multiply_weights<columns, width>(weights, dy, value_gradient);
      __syncwarp();
      put_weights(weights, slopes);
      __syncwarp();
      multiply_weights<columns, width>(weights, queries, key_gradient);
    }
  store_results<width>(p.gradients.key(block.batch, block.head), key_gradient, block.first, s,
                       p.in.aligned, p.write);
  store_results<width>(p.gradients.value(block.batch, block.head), value_gradient, block.first, s,
                       p.in.aligned, p.write);
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

template <class T>
void launch(Stream& stream, const AttentionBackward& p) {
  const AttentionShape& s = p.shape;
  const auto arguments = gpu::attention_arguments<T>(p);
  const auto run = [&](auto* kernel, int shared_floats, Index heads) {
    check(gpu_launch(kernel, gpu::attention_grid(s, heads),
                     dim3(gpu::attention_side, gpu::attention_side),
                     static_cast<std::size_t>(shared_floats) * sizeof(float),
                     cuda_stream_of(stream), arguments),
          "attention gradient");
  };
  gpu::for_head_width(s.head_dim, [&](auto width) {
    constexpr int w = decltype(width)::value;
    run(gpu::attention_queries_kernel<T, w>, gpu::backward_shared_floats<w>(), s.query_heads);
    run(gpu::attention_keys_kernel<T, w>, gpu::backward_shared_floats<w>(), s.kv_heads);
  });
}

}  // namespace

void attention_backward_simt(Stream& stream, const AttentionBackward& p) {
  attention_delta(stream, p);
  p.dtype == DType::bf16 ? launch<__nv_bfloat16>(stream, p) : launch<float>(stream, p);
}

}  // namespace trireme::kernels
