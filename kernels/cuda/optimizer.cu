// AdamW and SGD in one pass over all their arrays and one launch over all ranges, the sum of
// squares, and the decision, which the updates read on the device: the host never waits for it. A
// block takes a tile of a range.
#include <type_traits>

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/cuda/tiles.cuh"
#include "kernels/optimizer.h"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

/// Tile `tile` of the list, as a range.
template <class Range>
__device__ __forceinline__ Range tile_of(const DeviceList<Range>& list, Index tile) {
  Range range = list.ranges[range_of_tile(list, tile)];
  tile += list.ranges[0].tiles_before;
  const Index before = (tile - range.tiles_before) * Range::tile, left = range.count - before;
  range.begin += before;
  if constexpr (std::is_same_v<Range, UpdateRange>) {
    range.parameter_begin += before;
    range.state_begin += before;
  }
  range.count = left < Range::tile ? left : Range::tile;
  return range;
}

/// Elements of x since the last place where as many lie aligned as 16 bytes hold of fp32.
template <class T>
__device__ __forceinline__ Index elements_past(const T* x) {
  constexpr Index pack_bytes = Pack<float>::size * static_cast<Index>(sizeof(T));
  return static_cast<Index>(reinterpret_cast<std::uintptr_t>(x) % pack_bytes) /
         static_cast<Index>(sizeof(T));
}

struct AdamWStep {
  AdamW p;
  __device__ bool together(const UpdateRange& r) const {
    const Index past = elements_past(p.parameter + r.parameter_begin);
    return elements_past(p.gradient + r.begin) == past &&
           elements_past(p.first_moment + r.state_begin) == past &&
           elements_past(p.second_moment + r.state_begin) == past;
  }
  /// The new values of `width` parameters, which lie i behind the start of r; gradients are
  /// multiplied with `scale`.
  template <int width>
  __device__ Vec<float, width> at(const UpdateRange& r, Index i, float scale,
                                  const StepScalars& scalars) const {
    const float decay = 1 - scalars.learning_rate * static_cast<float>(r.weight_decay);
    float *first = p.first_moment + r.state_begin + i,
          *second = p.second_moment + r.state_begin + i;
    const Vec<float, width> gradient = load<width>(p.gradient + r.begin + i);
    Vec<float, width> x = load<width>(p.parameter + r.parameter_begin + i), m = load<width>(first),
                      v = load<width>(second);
    for (int k = 0; k < width; ++k) {
      const float g = gradient.values[k] * scale;
      m.values[k] = p.beta1 * m.values[k] + (1 - p.beta1) * g;
      v.values[k] = p.beta2 * v.values[k] + (1 - p.beta2) * (g * g);
      const float step = scalars.corrected_rate * m.values[k] /
                         (sqrtf(v.values[k] * scalars.second_correction) + p.epsilon);
      x.values[k] = x.values[k] * decay - step;
    }
    store_global(first, m);
    store_global(second, v);
    return x;
  }
};

struct SgdStep {
  Sgd p;
  __device__ bool together(const UpdateRange& r) const {
    const Index past = elements_past(p.parameter + r.parameter_begin);
    return elements_past(p.gradient + r.begin) == past &&
           (p.momentum_buffer == nullptr ||
            elements_past(p.momentum_buffer + r.state_begin) == past);
  }
  template <int width>
  __device__ Vec<float, width> at(const UpdateRange& r, Index i, float scale,
                                  const StepScalars& scalars) const {
    Vec<float, width> x = load<width>(p.parameter + r.parameter_begin + i),
                      step = load<width>(p.gradient + r.begin + i);
    const float decay = static_cast<float>(r.weight_decay);
    for (int k = 0; k < width; ++k) step.values[k] = decay * x.values[k] + step.values[k] * scale;
    if (p.momentum_buffer != nullptr) {
      float* buffer = p.momentum_buffer + r.state_begin + i;
      const Vec<float, width> old = load<width>(buffer);
      for (int k = 0; k < width; ++k) step.values[k] += p.momentum * old.values[k];
      store_global(buffer, step);
    }
    for (int k = 0; k < width; ++k) x.values[k] -= scalars.learning_rate * step.values[k];
    return x;
  }
};

inline constexpr int update_threads = 256;

/// A block for every tile. Four of them on a multiprocessor have 64 KiB under way, which is enough;
/// asking for no more lets nothing spill.
template <class Step>
__global__ void __launch_bounds__(update_threads, 4) update_kernel(Step step) {
  if (step.p.decision->skip != 0) return;
  const float scale = static_cast<float>(step.p.decision->clip_coefficient);
  const StepScalars scalars = *step.p.scalars;
  const UpdateRange r = tile_of(step.p.list, blockIdx.x);
  float* const parameter = step.p.parameter + r.parameter_begin;
  __nv_bfloat16* const copy = step.p.compute_copy == nullptr
                                  ? nullptr
                                  : reinterpret_cast<__nv_bfloat16*>(step.p.compute_copy) + r.begin;
  const bool together =
      step.together(r) && (copy == nullptr || elements_past(copy) == elements_past(parameter));
  for_span<update_threads>(parameter, r.count, together, [&]<int width>(Index i) {
    const Vec<float, width> x = step.template at<width>(r, i, scale, scalars);
    store_global(parameter + i, x);
    if (copy != nullptr) store_floats(copy + i, x);
  });
}

/// A block adds up its share of the tiles, in their order.
__global__ void __launch_bounds__(sum_threads)
    squares_kernel(DeviceList<ListedRange> list, const float* x, double* parts) {
  __shared__ double scratch[sum_warps];
  double sum = 0;
  const Index part = blockIdx.x, count = gridDim.x;
  for (Index t = list.tiles * part / count; t < list.tiles * (part + 1) / count; ++t) {
    const ListedRange range = tile_of(list, t);
    const float* from = x + range.begin;
    for_span<sum_threads>(from, range.count, true, [&]<int width>(Index i) {
      const Vec<float, width> v = load<width>(from + i);
      for (int k = 0; k < width; ++k) sum += to_double(v.values[k]) * to_double(v.values[k]);
    });
  }
  store_part(sum, scratch, parts);
}

__global__ void decide_kernel(Decide p) { *p.decision = decide_step(*p.sum, p.max_norm); }

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

template <class Step>
void update(Stream& stream, const Step& step, const char* what) {
  if (step.p.list.tiles == 0) return;
  check(gpu_launch(gpu::update_kernel<Step>, dim3(static_cast<unsigned>(step.p.list.tiles)),
                   dim3(gpu::update_threads), 0, cuda_stream_of(stream), step),
        what);
}

void adamw(Stream& stream, const AdamW& p) {
  check_optimizer(p);
  update(stream, gpu::AdamWStep{p}, "AdamW");
}

void sgd(Stream& stream, const Sgd& p) {
  check_optimizer(p);
  update(stream, gpu::SgdStep{p}, "SGD");
}

void sum_of_squares(Stream& stream, const SumOfSquares& p) {
  check_optimizer(p);
  const unsigned parts = gpu::parts_for(p.list.tiles * gpu::sum_threads, 1);
  check(gpu_launch(gpu::squares_kernel, dim3(parts), dim3(gpu::sum_threads), 0,
                   cuda_stream_of(stream), p.list, p.x,
                   static_cast<CudaStream&>(stream).partial_sums()),
        "sum of squares");
  gpu::add_parts(stream, parts, p.sum, Write::assign, "sum of squares");
}

void decide(Stream& stream, const Decide& p) {
  check(gpu_launch(gpu::decide_kernel, dim3(1), dim3(1), 0, cuda_stream_of(stream), p), "decision");
}

}  // namespace

const OptimizerKernels& cuda_table(const OptimizerKernels*) {
  static constexpr OptimizerKernels kernels = {adamw, sgd, sum_of_squares, decide};
  return kernels;
}

}  // namespace trireme::kernels
