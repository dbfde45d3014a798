// Elementwise kernels. Memory-bound: each byte is read and written once, 16 bytes a thread where
// all operands are aligned.
#include "trireme/core/random.h"

#include "kernels/cuda/formulas.cuh"
#include "kernels/cuda/strided.h"
#include "kernels/cuda/sums.cuh"
#include "kernels/elementwise.h"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

struct Plus {
  __device__ float value(float a, float b) const { return a + b; }
};

/// y = x + bias of the column.
template <class T>
struct AddBias {
  static constexpr int pack = Pack<T>::size;
  const T *x, *bias;
  T* y;
  Index channels;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> p = load_floats<width>(x + i);
    const Vec<float, width> b = load_floats<width>(bias + i % channels);
    for (int k = 0; k < width; ++k) p.values[k] += b.values[k];
    store_floats(y + i, p);
  }
};

/// One Philox block gives four elements: packs start where `first_element` is a multiple of four.
template <class T>
struct DropValues {
  static constexpr int pack = Pack<T>::size;
  Index first_element;
  StepRandom random;
  std::uint64_t key;  // of this step: start_block() sets it
  float rate, kept;
  const T* x;
  T* y;
  Write write;
  __device__ void start_block() {
    __shared__ std::uint64_t of_step;
    if (threadIdx.x + 1 == blockDim.x) of_step = random.now().key;
    __syncthreads();
    key = of_step;
  }
  template <int width>
  __device__ void at(Index i) const {
    const Index element = first_element + i;
    Vec<float, width> v = load_floats<width>(x + i);
    for (int first = 0; first < width; first += 4) {
      const Philox words = philox(static_cast<std::uint64_t>(element + first) >> 2, key);
      for (int k = first; k < width && k < first + 4; ++k) {
        const std::uint32_t bits =
            words[static_cast<std::size_t>(width == 1 ? element & 3 : k & 3)];
        const bool keep = static_cast<float>(bits >> 8) * 0x1p-24f >= rate;
        v.values[k] = keep ? v.values[k] * kept : 0.0f;  // zero even where x is infinite
      }
    }
    write_floats(y + i, v, write);
  }
};

template <class T>
struct SquaredErrorGradient {
  static constexpr int pack = Pack<T>::size;
  const T *x, *target;
  const double* scale;
  T* dx;
  Write write;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> v = load_floats<width>(x + i);
    const Vec<float, width> t = load_floats<width>(target + i);
    const float factor = static_cast<float>(*scale);
    for (int k = 0; k < width; ++k) v.values[k] = 2 * (v.values[k] - t.values[k]) * factor;
    write_floats(dx + i, v, write);
  }
};

/// Adds (x - target)^2 to a sum in fp64.
template <class T>
struct SquaredErrors {
  static constexpr int pack = Pack<T>::size;
  const T *x, *target;
  template <int width>
  __device__ void add(Index i, double& sum) const {
    const Vec<T, width> v = load<width>(x + i), t = load<width>(target + i);
    for (int k = 0; k < width; ++k) {
      const double d = to_double(v.values[k]) - to_double(t.values[k]);
      sum += d * d;
    }
  }
};

// A block of the bias gradient has 32 bytes of each row, what memory gives at least; enough rows
// are under way at once. In bf16 there are half as many blocks, and a load is half as large: each
// has twice the threads, and they twice the loads.
inline constexpr int column_bytes = 32;
template <class T>
inline constexpr int bias_threads = sizeof(T) == 2 ? 1024 : 512;
template <class T>
inline constexpr int bias_loads = sizeof(T) == 2 ? 16 : 8;  // of a thread, under way at once
template <class T>
inline constexpr int column_tile = column_bytes / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int row_lanes = bias_threads<T> / column_tile<T>;

/// Thread (c, r) sums every row_lanes-th row from r on, then the block the partial sums of a column
/// in the order of r.
template <class T>
__global__ void __launch_bounds__(bias_threads<T>)
    bias_backward_kernel(const T* dy, Index rows, Index channels, float* dbias) {
  constexpr int lanes = row_lanes<T>, columns = column_tile<T>;
  __shared__ float partial[lanes][columns];
  const Index column = static_cast<Index>(blockIdx.x) * columns + threadIdx.x;
  float sum = 0;
  if (column < channels) {
#pragma unroll bias_loads < T>
    for (Index row = threadIdx.y; row < rows; row += lanes)
      sum += to_float(dy[row * channels + column]);
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= channels) return;
  float total = 0;
  for (int r = 0; r < lanes; ++r) total += partial[r][threadIdx.x];
  dbias[column] += total;
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

void add(Stream& stream, const Addition& p) {
  check_elementwise(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::ValuesOfPairs<T, gpu::Plus> f{
        {}, static_cast<const T*>(p.a), static_cast<const T*>(p.b), static_cast<T*>(p.y)};
    gpu::map(stream, f, p.count, gpu::all_aligned(p.a, p.b, p.y), "add");
  });
}

void bias_add(Stream& stream, const BiasAdd& p) {
  check_elementwise(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const bool aligned = p.channels % gpu::Pack<T>::size == 0 && gpu::all_aligned(p.x, p.bias, p.y);
    const gpu::AddBias<T> f{static_cast<const T*>(p.x), static_cast<const T*>(p.bias),
                            static_cast<T*>(p.y), p.channels};
    gpu::map(stream, f, p.rows * p.channels, aligned, "bias");
  });
}

void bias_backward(Stream& stream, const BiasBackward& p) {
  check_elementwise(p);
  if (p.channels == 0) return;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    constexpr int columns = gpu::column_tile<T>;
    const auto blocks = static_cast<unsigned>((p.channels + columns - 1) / columns);
    check(gpu_launch(gpu::bias_backward_kernel<T>, dim3(blocks), dim3(columns, gpu::row_lanes<T>),
                     0, cuda_stream_of(stream), static_cast<const T*>(p.dy), p.rows, p.channels,
                     p.dbias),
          "bias gradient");
  });
}

void dropout(Stream& stream, const Dropout& p) {
  check_elementwise(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::DropValues<T> f{p.first_element,
                               p.random,
                               0,
                               p.rate,
                               1.0f / (1.0f - p.rate),
                               static_cast<const T*>(p.x),
                               static_cast<T*>(p.y),
                               p.write};
    gpu::map(stream, f, p.count, p.first_element % 4 == 0 && gpu::all_aligned(p.x, p.y), "dropout");
  });
}

void squared_error_forward(Stream& stream, const SquaredErrorForward& p) {
  check_elementwise(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::SquaredErrors<T> f{static_cast<const T*>(p.x), static_cast<const T*>(p.target)};
    gpu::sum(stream, f, p.count, gpu::all_aligned(p.x, p.target), p.loss, "squared error");
  });
}

void squared_error_backward(Stream& stream, const SquaredErrorBackward& p) {
  check_elementwise(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::SquaredErrorGradient<T> f{static_cast<const T*>(p.x),
                                         static_cast<const T*>(p.target), p.scale,
                                         static_cast<T*>(p.dx), p.write};
    gpu::map(stream, f, p.count, gpu::all_aligned(p.x, p.target, p.dx), "squared error gradient");
  });
}

}  // namespace

const ElementwiseKernels& cuda_table(const ElementwiseKernels*) {
  static constexpr ElementwiseKernels kernels = {add,
                                                 bias_add,
                                                 bias_backward,
                                                 dropout,
                                                 squared_error_forward,
                                                 squared_error_backward,
                                                 cuda_copy_strided};
  return kernels;
}

}  // namespace trireme::kernels
