// Loops over flat arrays, 16 bytes at a time where every operand is aligned: by all threads of a
// launch, f.at<width>(i) does `width` elements from i on; or by a block of its own.
#pragma once

#include "kernels/cuda/gpu.cuh"

namespace trireme::kernels::gpu {

/// A thread does one pack, or one of the elements that are left behind the last. `F::pack`:
/// elements of 16 bytes. All threads of a block call f.start_block(), where there is one. There are
/// as many blocks as that takes: with a fixed number, those that do not fit on the device at once
/// would run alone at the end.
template <class F>
__global__ void __launch_bounds__(elementwise_threads) map_kernel(F f, Index count, bool aligned) {
  constexpr int pack = F::pack;
  if constexpr (requires { f.start_block(); }) f.start_block();
  const Index item = global_thread(), packs = aligned ? count / pack : 0;
  if (item < packs)
    f.template at<pack>(item * pack);
  else if (const Index i = item + packs * (pack - 1); i < count)
    f.template at<1>(i);
}

/// `aligned`: every operand is, and a pack never crosses what f treats as the end of a row.
template <class F>
void map(Stream& stream, const F& f, Index count, bool aligned, const char* what) {
  if (count == 0) return;
  const Index items = aligned ? count / F::pack + count % F::pack : count;
  const auto blocks =
      static_cast<unsigned>((items + elementwise_threads - 1) / elementwise_threads);
  check(gpu_launch(map_kernel<F>, dim3(blocks), dim3(elementwise_threads), 0,
                   cuda_stream_of(stream), f, count, aligned),
        what);
}

/// f<width>(i) for all i < count, shared out to the `threads` of the block. `packed`: where x + i
/// is aligned, all operands are; elements before the first multiple of 16 bytes and after the last
/// are taken one by one.
template <int threads, class T, class F>
__device__ __forceinline__ void for_span(const T* x, Index count, bool packed, const F& f) {
  constexpr int pack = Pack<T>::size;
  const Index offset = elements_to_alignment(x);
  const Index head = !packed || offset > count ? count : offset;
  const Index packs = (count - head) / pack, after = head + packs * pack;
  for (Index i = threadIdx.x; i < head; i += threads) f.template operator()<1>(i);
  for (Index i = threadIdx.x; i < packs; i += threads) f.template operator()<pack>(head + i * pack);
  for (Index i = after + threadIdx.x; i < count; i += threads) f.template operator()<1>(i);
}

}  // namespace trireme::kernels::gpu
