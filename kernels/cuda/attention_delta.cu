// dy . y of every query: what attention's gradient subtracts from the slopes of its weights (Dao
// 2023, arXiv:2307.08691, algorithm 2, line 4). Read by the kernels for ordinary and for tensor
// cores.
#include "kernels/cuda/attention.cuh"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

inline constexpr int delta_lanes = 8, delta_threads = 256;

/// 8 threads per (token, query head), which take packs alternately.
template <class T>
__global__ void __launch_bounds__(delta_threads)
    attention_delta_kernel(AttentionBackwardArguments<T> p) {
  constexpr int pack = 4;
  const AttentionShape& s = p.in.shape;
  const Index rows = s.batch * s.sequence * s.query_heads;
  const int lane = static_cast<int>(threadIdx.x) % delta_lanes;
  const Index step = global_threads() / delta_lanes;
  // All lanes of a warp go round equally often: they exchange values.
  for (Index warp_row = global_thread() / warp_size * (warp_size / delta_lanes); warp_row < rows;
       warp_row += step) {
    const Index row = warp_row + static_cast<int>(threadIdx.x) % warp_size / delta_lanes;
    const T *y = p.y + row * s.head_dim, *dy = p.dy + row * s.head_dim;
    float sum = 0;
    for (Index d = lane * pack; row < rows && d < s.head_dim; d += delta_lanes * pack) {
      if (p.in.aligned) {
        const Vec<float, pack> a = load_floats<pack>(y + d), b = load_floats<pack>(dy + d);
        for (int k = 0; k < pack; ++k) sum += a.values[k] * b.values[k];
      } else {
        for (Index e = d; e < d + pack && e < s.head_dim; ++e)
          sum += to_float(y[e]) * to_float(dy[e]);
      }
    }
    for (int offset = delta_lanes / 2; offset > 0; offset /= 2)
      sum += __shfl_xor_sync(all_lanes, sum, offset);
    if (lane != 0 || row >= rows) continue;
    const Index token = row / s.query_heads, head = row % s.query_heads;
    const Index batch = token / s.sequence;
    p.delta[(batch * s.query_heads + head) * s.sequence + token % s.sequence] = sum;
  }
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

template <class T>
void launch_delta(Stream& stream, const AttentionBackward& p) {
  const Index rows = p.shape.batch * p.shape.sequence * p.shape.query_heads;
  check(gpu_launch(gpu::attention_delta_kernel<T>,
                   dim3(gpu::blocks_for(stream, rows * gpu::delta_lanes, gpu::delta_threads)),
                   dim3(gpu::delta_threads), 0, cuda_stream_of(stream),
                   gpu::attention_arguments<T>(p)),
        "attention gradient");
}

}  // namespace

void attention_delta(Stream& stream, const AttentionBackward& p) {
  p.dtype == DType::bf16 ? launch_delta<__nv_bfloat16>(stream, p) : launch_delta<float>(stream, p);
}

}  // namespace trireme::kernels
