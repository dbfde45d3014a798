// Elementwise kernels. Memory-bound: each byte is read and written once, 16 bytes a thread where all operands are aligned.
#include "trireme/core/random.h"

#include "kernels/cuda/gpu.cuh"

namespace trireme {
namespace gpu {

/// y[i] = f(i, x[i]...) for whole packs, then for what is left; `aligned` when every operand is.
template <class F>
__global__ void __launch_bounds__(elementwise_threads) map_kernel(F f, Index count, bool aligned) {
  constexpr int pack = Pack<float>::size;
  const Index packs = aligned ? count / pack : 0;
  for (Index i = global_thread(); i < packs; i += global_threads()) f.pack(i * pack);
  for (Index i = packs * pack + global_thread(); i < count; i += global_threads()) f.one(i);
}

template <class F>
void map(Stream& stream, const F& f, Index count, bool aligned, const char* what) {
  if (count == 0) return;
  const Index items = aligned ? (count + 3) / 4 : count;
  check(gpu_launch(map_kernel<F>, dim3(blocks_for(stream, items)), dim3(elementwise_threads), 0,
                   queue_of(stream), f, count, aligned),
        what);
}

struct AddValues {
  const float *a, *b;
  float* y;
  __device__ void one(Index i) const { y[i] = a[i] + b[i]; }
  __device__ void pack(Index i) const {
    Pack<float> p = load(a + i);
    const Pack<float> q = load(b + i);
    for (int k = 0; k < Pack<float>::size; ++k) p.values[k] += q.values[k];
    store(y + i, p);
  }
};

struct ScaleValues {
  float* y;
  float factor;
  __device__ void one(Index i) const { y[i] *= factor; }
  __device__ void pack(Index i) const {
    Pack<float> p = load(y + i);
    for (int k = 0; k < Pack<float>::size; ++k) p.values[k] *= factor;
    store(y + i, p);
  }
};

/// y = x + bias of the column.
struct AddBias {
  const float *x, *bias;
  float* y;
  Index channels;
  __device__ void one(Index i) const { y[i] = x[i] + bias[i % channels]; }
  __device__ void pack(Index i) const {
    Pack<float> p = load(x + i);
    const Pack<float> b = load(bias + i % channels);
    for (int k = 0; k < Pack<float>::size; ++k) p.values[k] += b.values[k];
    store(y + i, p);
  }
};

/// One Philox block gives four elements: packs start where `first_element` is a multiple of four.
struct DropValues {
  Dropout p;
  float kept;
  __device__ float value(float x, std::uint32_t bits) const {
    const bool keep = static_cast<float>(bits >> 8) * 0x1p-24f >= p.rate;
    return keep ? x * kept : 0.0f;  // zero even where x is infinite
  }
  __device__ void one(Index i) const {
    const float v = value(p.x[i], p.random.bits(p.first_element + i));
    p.y[i] = p.write == Write::add ? p.y[i] + v : v;
  }
  __device__ void pack(Index i) const {
    const Philox words = philox(static_cast<std::uint64_t>(p.first_element + i) >> 2, p.random.key);
    Pack<float> v = load(p.x + i);
    for (int k = 0; k < Pack<float>::size; ++k)
      v.values[k] = value(v.values[k], words[static_cast<std::size_t>(k)]);
    if (p.write == Write::add) {
      const Pack<float> old = load(p.y + i);
      for (int k = 0; k < Pack<float>::size; ++k) v.values[k] += old.values[k];
    }
    store(p.y + i, v);
  }
};

struct SquaredErrorGradient {
  SquaredErrorBackward p;
  __device__ void one(Index i) const {
    const float v = 2 * (p.x[i] - p.target[i]) * static_cast<float>(*p.scale);
    p.dx[i] = p.write == Write::add ? p.dx[i] + v : v;
  }
  __device__ void pack(Index i) const {
    Pack<float> v = load(p.x + i);
    const Pack<float> t = load(p.target + i);
    const float scale = static_cast<float>(*p.scale);
    for (int k = 0; k < Pack<float>::size; ++k)
      v.values[k] = 2 * (v.values[k] - t.values[k]) * scale;
    if (p.write == Write::add) {
      const Pack<float> old = load(p.dx + i);
      for (int k = 0; k < Pack<float>::size; ++k) v.values[k] += old.values[k];
    }
    store(p.dx + i, v);
  }
};

inline constexpr int column_tile = 32, row_lanes = 16;

/// A block sums 32 columns: thread (c, r) every 16th row from r on, then the partial sums of a column in the order of r.
__global__ void __launch_bounds__(column_tile* row_lanes) bias_backward_kernel(BiasBackward p) {
  __shared__ float partial[row_lanes][column_tile];
  const Index column = static_cast<Index>(blockIdx.x) * column_tile + threadIdx.x;
  float sum = 0;
  if (column < p.channels)
    for (Index row = threadIdx.y; row < p.rows; row += row_lanes)
      sum += p.dy[row * p.channels + column];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= p.channels) return;
  float total = 0;
  for (int r = 0; r < row_lanes; ++r) total += partial[r][threadIdx.x];
  p.dbias[column] += total;
}

inline constexpr int sum_threads = 1024;

/// One block, in fp64 and a fixed order.
__global__ void __launch_bounds__(sum_threads) squared_error_kernel(SquaredErrorForward p) {
  __shared__ double scratch[sum_threads / warp_size];
  double sum = 0;
  for (Index i = threadIdx.x; i < p.count; i += sum_threads) {
    const double d = static_cast<double>(p.x[i]) - static_cast<double>(p.target[i]);
    sum += d * d;
  }
  sum = block_reduce(sum, Sum(), scratch);
  if (threadIdx.x == 0) *p.loss = sum;
}

}  // namespace gpu

namespace {

void add(Stream& stream, const float* a, const float* b, float* y, Index count) {
  require(count >= 0, "add of ", count, " elements");
  const bool aligned = gpu::aligned16(a) && gpu::aligned16(b) && gpu::aligned16(y);
  gpu::map(stream, gpu::AddValues{a, b, y}, count, aligned, "add");
}

void accumulate(Stream& stream, float* y, const float* x, Index count) {
  add(stream, y, x, y, count);
}

void scale(Stream& stream, float* y, float factor, Index count) {
  require(count >= 0, "scale of ", count, " elements");
  gpu::map(stream, gpu::ScaleValues{y, factor}, count, gpu::aligned16(y), "scale");
}

void bias_add(Stream& stream, const BiasAdd& p) {
  require(p.rows >= 0 && p.channels >= 0, "bias of (", p.rows, ", ", p.channels, ")");
  const bool aligned = p.channels % gpu::Pack<float>::size == 0 && gpu::aligned16(p.x) &&
                       gpu::aligned16(p.bias) && gpu::aligned16(p.y);
  gpu::map(stream, gpu::AddBias{p.x, p.bias, p.y, p.channels}, p.rows * p.channels, aligned,
           "bias");
}

void bias_backward(Stream& stream, const BiasBackward& p) {
  require(p.rows >= 0 && p.channels >= 0, "bias gradient of (", p.rows, ", ", p.channels, ")");
  if (p.channels == 0) return;
  const auto blocks = static_cast<unsigned>((p.channels + gpu::column_tile - 1) / gpu::column_tile);
  check(gpu_launch(gpu::bias_backward_kernel, dim3(blocks), dim3(gpu::column_tile, gpu::row_lanes),
                   0, queue_of(stream), p),
        "bias gradient");
}

void dropout(Stream& stream, const Dropout& p) {
  require(p.rate >= 0 && p.rate < 1, "dropout rate ", p.rate, " is not in [0, 1)");
  require(p.count >= 0 && p.first_element >= 0, "dropout of ", p.count, " elements from ",
          p.first_element);
  const bool aligned =
      p.first_element % gpu::Pack<float>::size == 0 && gpu::aligned16(p.x) && gpu::aligned16(p.y);
  gpu::map(stream, gpu::DropValues{p, 1.0f / (1.0f - p.rate)}, p.count, aligned, "dropout");
}

void squared_error_forward(Stream& stream, const SquaredErrorForward& p) {
  require(p.count >= 0, "squared error of ", p.count, " elements");
  check(gpu_launch(gpu::squared_error_kernel, dim3(1), dim3(gpu::sum_threads), 0, queue_of(stream),
                   p),
        "squared error");
}

void squared_error_backward(Stream& stream, const SquaredErrorBackward& p) {
  require(p.count >= 0, "squared error of ", p.count, " elements");
  const bool aligned = gpu::aligned16(p.x) && gpu::aligned16(p.target) && gpu::aligned16(p.dx);
  gpu::map(stream, gpu::SquaredErrorGradient{p}, p.count, aligned, "squared error gradient");
}

}  // namespace

const ElementwiseKernels cuda_elementwise_kernels = {add,
                                                     accumulate,
                                                     scale,
                                                     bias_add,
                                                     bias_backward,
                                                     dropout,
                                                     squared_error_forward,
                                                     squared_error_backward,
                                                     cuda_copy_strided};

}  // namespace trireme
