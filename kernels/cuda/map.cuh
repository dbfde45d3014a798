// Loops over flat arrays: f.at<width>(i) does `width` elements from i on, 16 bytes where every operand is aligned.
#pragma once

#include "kernels/cuda/gpu.cuh"

namespace trireme::gpu {

/// Whole packs first, then what is left. `F::pack`: elements of 16 bytes.
template <class F>
__global__ void __launch_bounds__(elementwise_threads) map_kernel(F f, Index count, bool aligned) {
  constexpr int pack = F::pack;
  const Index packs = aligned ? count / pack : 0;
  for (Index i = global_thread(); i < packs; i += global_threads()) f.template at<pack>(i * pack);
  for (Index i = packs * pack + global_thread(); i < count; i += global_threads())
    f.template at<1>(i);
}

/// `aligned`: every operand is, and a pack never crosses what f treats as the end of a row.
template <class F>
void map(Stream& stream, const F& f, Index count, bool aligned, const char* what) {
  if (count == 0) return;
  const Index items = aligned ? (count + F::pack - 1) / F::pack : count;
  check(gpu_launch(map_kernel<F>, dim3(blocks_for(stream, items)), dim3(elementwise_threads), 0,
                   queue_of(stream), f, count, aligned),
        what);
}

}  // namespace trireme::gpu
