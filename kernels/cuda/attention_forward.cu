// Flash attention forward in fp32 arithmetic (Dao 2023, arXiv:2307.08691, algorithm 1): a block
// takes 64 queries of one head and passes over the keys and values before them, with running maxima
// and sums. Exponentials are powers of two, so that scale and conversion are one multiplication.
#include "kernels/cuda/attention_tiles.cuh"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

inline constexpr int forward_columns = attention_rows / attention_side;

/// In shared memory: 64 queries; 64 keys and, after them, their values; 64 x 64 weights.
template <int width>
constexpr int forward_shared_floats() {
  return 2 * attention_rows * attention_stride(width) +
         attention_rows * attention_stride(attention_rows);
}

/// Over the 16 threads that share rows, in a fixed order.
template <class Op>
__device__ __forceinline__ float reduce_row(float value, Op op) {
#pragma unroll
  for (int offset = attention_side / 2; offset > 0; offset /= 2)
    value = op(value, __shfl_xor_sync(all_lanes, value, offset));
  return value;
}

/// Turns scores into weights relative to the largest score so far, and scales what was gathered
/// before to it.
template <int width>
__device__ __forceinline__ void update_softmax(float (&scores)[attention_own][forward_columns],
                                               float (&largest)[attention_own],
                                               float (&total)[attention_own],
                                               OwnResults<width>& results, int first_query,
                                               int first_key, float scale) {
#pragma unroll
  for (int i = 0; i < attention_own; ++i) {
    float row_largest = largest[i];
#pragma unroll
    for (int j = 0; j < forward_columns; ++j) {
      const int key = first_key + static_cast<int>(threadIdx.x) + attention_side * j;
      if (key > first_query + own_row() + i) scores[i][j] = -INFINITY;
      row_largest = Max()(scores[i][j], row_largest);
    }
    row_largest =
        reduce_row(row_largest, Max());  // finite: the first key of a block is never after a query
    const float factor = exp2f((largest[i] - row_largest) * scale);
    largest[i] = row_largest;
    total[i] *= factor;
#pragma unroll
    for (int j = 0; j < forward_columns; ++j) {
      scores[i][j] = exp2f((scores[i][j] - row_largest) * scale);
      total[i] += scores[i][j];
    }
#pragma unroll
    for (int j = 0; j < width / attention_side; ++j) results[i][j] *= factor;
  }
}

template <class T, int width>
__global__ void __launch_bounds__(attention_threads, 2)
    attention_forward_kernel(AttentionForwardArguments<T> p) {
  const AttentionShape& s = p.in.shape;
  GPU_DYNAMIC_SHARED(float, queries);
  float* const rows = queries + attention_rows * attention_stride(width);
  float* const weights = rows + attention_rows * attention_stride(width);

  const AttentionBlock block =
      attention_block<BlockOrder::latest_first>(s, s.query_heads, p.together);
  const int kv = block.head / static_cast<int>(s.query_heads / s.kv_heads);
  load_rows<attention_rows, width>(queries, p.in.query(block.batch, block.head), block.first, s,
                                   p.in.aligned);
  OwnResults<width> results = {};
  float largest[attention_own], total[attention_own] = {};
#pragma unroll
  for (int i = 0; i < attention_own; ++i) largest[i] = -INFINITY;

  for (int first_key = 0; first_key <= block.first; first_key += attention_rows) {
    __syncthreads();  // the values of the block before are used
    load_rows<attention_rows, width>(rows, p.in.key(block.batch, kv), first_key, s, p.in.aligned);
    __syncthreads();
    float scores[attention_own][forward_columns];
    multiply_rows<forward_columns, width>(queries, rows, scores);
    update_softmax<width>(scores, largest, total, results, block.first, first_key,
                          p.scale * log2_e);
    put_weights(weights, scores);
    __syncthreads();  // the keys are used
    load_rows<attention_rows, width>(rows, p.in.value(block.batch, kv), first_key, s, p.in.aligned);
    __syncthreads();
    multiply_weights<forward_columns, width>(weights, rows, results);
  }

  float* const logsumexp = p.logsumexp + (block.batch * s.query_heads + block.head) * s.sequence;
#pragma unroll
  for (int i = 0; i < attention_own; ++i) {
    const float sum = reduce_row(total[i], Sum());
#pragma unroll
    for (int j = 0; j < width / attention_side; ++j) results[i][j] /= sum;
    const int query = block.first + own_row() + i;
    if (threadIdx.x == 0 && query < s.sequence) logsumexp[query] = largest[i] * p.scale + logf(sum);
  }
  store_results<width>(p.in.output(p.y, block.batch, block.head), results, block.first, s,
                       p.in.aligned, Write::assign);
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

template <class T>
void launch(Stream& stream, const AttentionForward& p) {
  const auto arguments = gpu::attention_arguments<T>(p);
  gpu::for_head_width(p.shape.head_dim, [&](auto width) {
    constexpr int w = decltype(width)::value;
    check(gpu_launch((gpu::attention_forward_kernel<T, w>),
                     gpu::attention_grid(p.shape, p.shape.query_heads),
                     dim3(gpu::attention_side, gpu::attention_side),
                     gpu::forward_shared_floats<w>() * sizeof(float), cuda_stream_of(stream),
                     arguments),
          "attention");
  });
}

}  // namespace

void attention_forward_simt(Stream& stream, const AttentionForward& p) {
  p.dtype == DType::bf16 ? launch<__nv_bfloat16>(stream, p) : launch<float>(stream, p);
}

}  // namespace trireme::kernels
