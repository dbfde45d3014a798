// Elementwise kernels. Memory-bound: each byte is read and written once, 16 bytes a thread where all operands are aligned.
#include "trireme/core/random.h"

#include "kernels/cuda/map.cuh"
#include "kernels/shape_checks.h"

namespace trireme {
namespace gpu {

struct AddValues {
  static constexpr int pack = Pack<float>::size;
  const float *a, *b;
  float* y;
  template <int width>
  __device__ void at(Index i) const {
    Chunk<float, width> p = load<width>(a + i);
    const Chunk<float, width> q = load<width>(b + i);
    for (int k = 0; k < width; ++k) p.values[k] += q.values[k];
    store(y + i, p);
  }
};

struct ScaleValues {
  static constexpr int pack = Pack<float>::size;
  float* y;
  float factor;
  template <int width>
  __device__ void at(Index i) const {
    Chunk<float, width> p = load<width>(y + i);
    for (int k = 0; k < width; ++k) p.values[k] *= factor;
    store(y + i, p);
  }
};

/// y = x + bias of the column.
struct AddBias {
  static constexpr int pack = Pack<float>::size;
  const float *x, *bias;
  float* y;
  Index channels;
  template <int width>
  __device__ void at(Index i) const {
    Chunk<float, width> p = load<width>(x + i);
    const Chunk<float, width> b = load<width>(bias + i % channels);
    for (int k = 0; k < width; ++k) p.values[k] += b.values[k];
    store(y + i, p);
  }
};

/// One Philox block gives four elements: packs start where `first_element` is a multiple of four.
struct DropValues {
  static constexpr int pack = Pack<float>::size;
  Dropout p;
  float kept;
  template <int width>
  __device__ void at(Index i) const {
    const Index element = p.first_element + i;
    const Philox words = philox(static_cast<std::uint64_t>(element) >> 2, p.random.key);
    Chunk<float, width> v = load<width>(p.x + i);
    for (int k = 0; k < width; ++k) {
      const std::uint32_t bits = words[static_cast<std::size_t>(width == 1 ? element & 3 : k)];
      const bool keep = static_cast<float>(bits >> 8) * 0x1p-24f >= p.rate;
      v.values[k] = keep ? v.values[k] * kept : 0.0f;  // zero even where x is infinite
    }
    write_floats(p.y + i, v, p.write);
  }
};

struct SquaredErrorGradient {
  static constexpr int pack = Pack<float>::size;
  SquaredErrorBackward p;
  template <int width>
  __device__ void at(Index i) const {
    Chunk<float, width> v = load<width>(p.x + i);
    const Chunk<float, width> t = load<width>(p.target + i);
    const float scale = static_cast<float>(*p.scale);
    for (int k = 0; k < width; ++k) v.values[k] = 2 * (v.values[k] - t.values[k]) * scale;
    write_floats(p.dx + i, v, p.write);
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
  check_dropout(p);
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
