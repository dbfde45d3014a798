#include <stdexcept>

#include "swish_formula.h"
#include "swish_on_gpu.h"

namespace {

constexpr int threads = 256;

__global__ void forward(const float* x, float* y, std::int64_t count, float beta) {
  const std::int64_t i = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  if (i < count) y[i] = swish_value(x[i], beta);
}

__global__ void backward(const float* x, const float* dy, float* dx, std::int64_t count,
                         float beta) {
  const std::int64_t i = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  if (i < count) dx[i] = dy[i] * swish_slope(x[i], beta);
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

void check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

}  // namespace

void swish_forward_on_gpu(void* queue, const float* x, float* y, std::int64_t count, float beta) {
  if (count == 0) return;
  forward<<<blocks_for(count), threads, 0, static_cast<cudaStream_t>(queue)>>>(x, y, count, beta);
  check_launch();
}

void swish_backward_on_gpu(void* queue, const float* x, const float* dy, float* dx,
                           std::int64_t count, float beta) {
  if (count == 0) return;
  backward<<<blocks_for(count), threads, 0, static_cast<cudaStream_t>(queue)>>>(x, dy, dx, count,
                                                                                beta);
  check_launch();
}
