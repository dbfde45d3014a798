// AdamW and SGD in one pass over all their arrays, and the sum of squares for clipping. The clipping factor is read on the
// device: the host never waits for it.
#include <algorithm>

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/shape_checks.h"

namespace trireme {
namespace gpu {

struct AdamWStep {
  static constexpr int pack = Pack<float>::size;
  AdamW p;
  float decay, rate, inverse_correction2;
  template <int width>
  __device__ void at(Index i) const {
    const float scale = *p.gradient_scale;
    const Chunk<float, width> gradient = load<width>(p.gradient + i);
    Chunk<float, width> x = load<width>(p.parameter + i), m = load<width>(p.first_moment + i),
                        v = load<width>(p.second_moment + i);
    for (int k = 0; k < width; ++k) {
      const float g = gradient.values[k] * scale;
      m.values[k] = p.beta1 * m.values[k] + (1 - p.beta1) * g;
      v.values[k] = p.beta2 * v.values[k] + (1 - p.beta2) * (g * g);
      const float step =
          rate * m.values[k] / (sqrtf(v.values[k] * inverse_correction2) + p.epsilon);
      x.values[k] = x.values[k] * decay - step;
    }
    store(p.first_moment + i, m);
    store(p.second_moment + i, v);
    store(p.parameter + i, x);
  }
};

struct SgdStep {
  static constexpr int pack = Pack<float>::size;
  Sgd p;
  template <int width>
  __device__ void at(Index i) const {
    const float scale = *p.gradient_scale;
    Chunk<float, width> x = load<width>(p.parameter + i), step = load<width>(p.gradient + i);
    for (int k = 0; k < width; ++k)
      step.values[k] = p.weight_decay * x.values[k] + step.values[k] * scale;
    if (p.momentum_buffer != nullptr) {
      const Chunk<float, width> old = load<width>(p.momentum_buffer + i);
      for (int k = 0; k < width; ++k) step.values[k] += p.momentum * old.values[k];
      store(p.momentum_buffer + i, step);
    }
    for (int k = 0; k < width; ++k) x.values[k] -= p.learning_rate * step.values[k];
    store(p.parameter + i, x);
  }
};

/// x may begin anywhere: `head` elements before the first multiple of 16 bytes are taken one by one, as is the rest.
__global__ void __launch_bounds__(sum_threads)
    squares_kernel(const float* x, Index head, Index packs, Index count, double* parts) {
  __shared__ double scratch[sum_warps];
  constexpr int pack = Pack<float>::size;
  const auto square = [](float v) { return static_cast<double>(v) * static_cast<double>(v); };
  double sum = 0;
  for (Index i = global_thread(); i < packs; i += global_threads()) {
    const Pack<float> v = load(x + head + i * pack);
    for (int k = 0; k < pack; ++k) sum += square(v.values[k]);
  }
  const Index singles = count - packs * pack;
  for (Index i = global_thread(); i < singles; i += global_threads())
    sum += square(x[i < head ? i : i + packs * pack]);
  store_part(sum, scratch, parts);
}

}  // namespace gpu

namespace {

void adamw(Stream& stream, const AdamW& p) {
  check_optimizer(p);
  const bool aligned = gpu::aligned16(p.parameter) && gpu::aligned16(p.gradient) &&
                       gpu::aligned16(p.first_moment) && gpu::aligned16(p.second_moment);
  const gpu::AdamWStep step{p, 1 - p.learning_rate * p.weight_decay,
                            p.learning_rate / p.bias_correction1, 1 / p.bias_correction2};
  gpu::map(stream, step, p.count, aligned, "AdamW");
}

void sgd(Stream& stream, const Sgd& p) {
  check_optimizer(p);
  const bool aligned = gpu::aligned16(p.parameter) && gpu::aligned16(p.gradient) &&
                       gpu::aligned16(p.momentum_buffer);
  gpu::map(stream, gpu::SgdStep{p}, p.count, aligned, "SGD");
}

void add_sum_of_squares(Stream& stream, const float* x, Index count, double* sum) {
  require(count >= 0, "sum of squares of ", count, " elements");
  if (count == 0) return;
  constexpr Index pack = gpu::Pack<float>::size;
  const Index head = std::min(count, gpu::elements_to_alignment(x));
  const Index packs = (count - head) / pack;
  const unsigned parts = gpu::parts_for(count, 4 * pack);
  check(gpu_launch(gpu::squares_kernel, dim3(parts), dim3(gpu::sum_threads), 0, queue_of(stream), x,
                   head, packs, count, static_cast<CudaStream&>(stream).partial_sums()),
        "sum of squares");
  gpu::add_parts(stream, parts, sum, Write::add, "sum of squares");
}

}  // namespace

const OptimizerKernels cuda_optimizer_kernels = {adamw, sgd, add_sum_of_squares};

}  // namespace trireme
