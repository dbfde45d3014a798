// Sums of long arrays in fp64: a number of parts that depends on the count alone is summed by a
// block each into the stream's partial sums, and one block adds the parts, in a fixed order. So the
// result does not depend on the size of the device.
#pragma once

#include "kernels/cuda/gpu.cuh"

namespace trireme::gpu {

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

}  // namespace trireme::gpu
