// Sums of long arrays in fp64: a number of parts that depends on the count alone is summed by a
// block each into the stream's partial sums, and one block adds the parts, in a fixed order. So the
// result does not depend on the size of the device.
#pragma once

#include "kernels/cuda/gpu.cuh"

namespace trireme::kernels::gpu {

inline constexpr int sum_threads = 256, sum_warps = sum_threads / warp_size;

/// Blocks for a sum over `count` items of which a thread takes `each` at least.
inline unsigned parts_for(Index count, Index each) {
  const Index wanted = (count + each * sum_threads - 1) / (each * sum_threads);
  const Index most = CudaStream::most_partial_sums;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

/// parts[blockIdx.x] = the sum over the block: the end of a kernel whose blocks are the parts.
/// `scratch`: shared memory.
__device__ __forceinline__ void store_part(double sum, double* scratch, double* parts) {
  sum = block_reduce(sum, Sum(), scratch);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

/// parts[blockIdx.x] = this block's part of the sum over all i < count, in a fixed order:
/// f.add<width>(i, sum) adds what `width` elements from i on contribute. `F::pack`: elements of 16
/// bytes.
template <class F>
__global__ void __launch_bounds__(sum_threads)
    sum_kernel(F f, Index count, bool aligned, double* parts) {
  __shared__ double scratch[sum_warps];
  constexpr int pack = F::pack;
  double sum = 0;
  const Index packs = aligned ? count / pack : 0;
  for (Index i = global_thread(); i < packs; i += global_threads())
    f.template add<pack>(i * pack, sum);
  for (Index i = packs * pack + global_thread(); i < count; i += global_threads())
    f.template add<1>(i, sum);
  store_part(sum, scratch, parts);
}

/// *result = (or +=) the sum of all parts. One block.
static __global__ void __launch_bounds__(sum_threads)
    add_parts_kernel(const double* parts, int count, double* result, Write write) {
  __shared__ double scratch[sum_warps];
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += sum_threads) sum += parts[i];
  sum = block_reduce(sum, Sum(), scratch);
  if (threadIdx.x == 0) *result = write == Write::add ? *result + sum : sum;
}

inline void add_parts(Stream& stream, unsigned parts, double* result, Write write,
                      const char* what) {
  check(gpu_launch(add_parts_kernel, dim3(1), dim3(sum_threads), 0, cuda_stream_of(stream),
                   static_cast<CudaStream&>(stream).partial_sums(), static_cast<int>(parts), result,
                   write),
        what);
}

/// *result = the sum of f over all i < count, see sum_kernel. `aligned`: every operand is.
template <class F>
void sum(Stream& stream, const F& f, Index count, bool aligned, double* result, const char* what) {
  const unsigned parts = parts_for(count, 4 * F::pack);
  check(gpu_launch(sum_kernel<F>, dim3(parts), dim3(sum_threads), 0, cuda_stream_of(stream), f,
                   count, aligned, static_cast<CudaStream&>(stream).partial_sums()),
        what);
  add_parts(stream, parts, result, Write::assign, what);
}

}  // namespace trireme::kernels::gpu
