// The two passes of softmax cross-entropy over logits, a block a row, and the step between them.
// Rows of an odd vocabulary begin anywhere: elements before the first multiple of 16 bytes and
// after the last are taken one by one.
#include "kernels/cross_entropy.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/sums.cuh"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

inline constexpr int row_threads = 512, row_warps = row_threads / warp_size;

/// The largest value so far and the sum of exp(value - largest).
struct Online {
  float max = -HUGE_VALF, sum = 0;
  /// What is subtracted in exponents: not minus infinity, so that exp(-inf) is 0 and not NaN.
  __device__ float shift() const { return max == -HUGE_VALF ? 0.0f : max; }
  template <int width>
  __device__ void add(const Vec<float, width>& x) {
    float largest = max;
    for (int k = 0; k < width; ++k) largest = Max()(x.values[k], largest);
    if (largest > max) {
      sum *= expf(max - largest);
      max = largest;
    }
    for (int k = 0; k < width; ++k) sum += expf(x.values[k] - shift());
  }
};

template <class T>
struct LogitRows {
  Index columns, row_stride, first;
  const T* logits;
  const std::int32_t* targets;
};

template <class T>
__global__ void __launch_bounds__(row_threads)
    cross_entropy_partial_kernel(LogitRows<T> p, RowPartial* partial) {
  __shared__ float scratch[row_warps];
  const Index row = blockIdx.x;
  const T* x = p.logits + row * p.row_stride;
  Online online;
  for_span<row_threads>(x, p.columns, true,
                        [&]<int width>(Index i) { online.add(load_floats<width>(x + i)); });
  const float largest = block_reduce(online.max, Max(), scratch);
  const float shift = largest == -HUGE_VALF ? 0.0f : largest;
  const float sum = block_reduce(online.sum * expf(online.max - shift), Sum(), scratch);
  if (threadIdx.x != 0) return;
  const Index target = p.targets[row] - p.first;
  const bool here = p.targets[row] >= 0 && target >= 0 && target < p.columns;
  partial[row] = {largest, sum, here ? to_float(x[target]) : 0.0f};
}

/// A thread takes a row, in fp64; parts[blockIdx.x] = this block's part of the loss.
__global__ void __launch_bounds__(sum_threads)
    cross_entropy_combine_kernel(CrossEntropyCombine p, double* parts) {
  __shared__ double scratch[sum_warps];
  double loss = 0;
  for (Index row = global_thread(); row < p.rows; row += global_threads()) {
    double largest = -HUGE_VAL, sum = 0, target = 0;
    for (Index rank = 0; rank < p.ranks; ++rank)
      largest = fmax(largest, static_cast<double>(p.partials[rank * p.rows + row].max));
    for (Index rank = 0; rank < p.ranks; ++rank) {
      const RowPartial part = p.partials[rank * p.rows + row];
      sum += static_cast<double>(part.sum_exp) * exp(static_cast<double>(part.max) - largest);
      target += static_cast<double>(part.target);
    }
    const double logsumexp = largest + log(sum);
    p.logsumexp[row] = static_cast<float>(logsumexp);
    if (p.targets[row] >= 0) loss += logsumexp - target;
  }
  store_part(loss, scratch, parts);
}

/// `together`: dlogits lies as logits does, relative to 16 bytes.
template <class T>
__global__ void __launch_bounds__(row_threads)
    cross_entropy_backward_kernel(LogitRows<T> p, Index padded_columns, const float* logsumexp,
                                  const double* scale, T* dlogits, bool together) {
  const Index row = blockIdx.x;
  const T* x = p.logits + row * p.row_stride;
  T* dx = dlogits + row * p.row_stride;
  const auto zero = [&]<int width>(Index i) { store_global(dx + i, Vec<T, width>{}); };
  if (p.targets[row] < 0) return for_span<row_threads>(dx, padded_columns, true, zero);

  const Index target = p.targets[row] - p.first;
  const float shift = logsumexp[row], factor = static_cast<float>(*scale);
  for_span<row_threads>(x, p.columns, together, [&]<int width>(Index i) {
    Vec<float, width> v = load_floats<width>(x + i);
    for (int k = 0; k < width; ++k) {
      v.values[k] = expf(v.values[k] - shift) * factor;
      if (i + k == target) v.values[k] -= factor;
    }
    store_global(dx + i, from_floats<T>(v));
  });
  for (Index i = p.columns + threadIdx.x; i < padded_columns; i += row_threads)
    zero.template operator()<1>(i);
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

template <class T, class Problem>
gpu::LogitRows<T> rows_of(const Problem& p) {
  return {p.columns, p.row_stride, p.first, static_cast<const T*>(p.logits), p.targets};
}

void partial(Stream& stream, const CrossEntropyPartial& p) {
  check_cross_entropy(p);
  if (p.rows == 0) return;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    check(gpu_launch(gpu::cross_entropy_partial_kernel<T>, dim3(static_cast<unsigned>(p.rows)),
                     dim3(gpu::row_threads), 0, cuda_stream_of(stream), rows_of<T>(p), p.partial),
          "cross-entropy");
  });
}

void combine(Stream& stream, const CrossEntropyCombine& p) {
  check_cross_entropy(p);
  const unsigned parts = gpu::parts_for(p.rows, 1);
  check(gpu_launch(gpu::cross_entropy_combine_kernel, dim3(parts), dim3(gpu::sum_threads), 0,
                   cuda_stream_of(stream), p, static_cast<CudaStream&>(stream).partial_sums()),
        "cross-entropy");
  gpu::add_parts(stream, parts, p.loss, Write::assign, "cross-entropy");
}

void backward(Stream& stream, const CrossEntropyBackward& p) {
  check_cross_entropy(p);
  if (p.rows == 0) return;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    T* dlogits = static_cast<T*>(p.dlogits);
    const bool together = gpu::elements_to_alignment(static_cast<const T*>(p.logits)) ==
                          gpu::elements_to_alignment(dlogits);
    check(gpu_launch(gpu::cross_entropy_backward_kernel<T>, dim3(static_cast<unsigned>(p.rows)),
                     dim3(gpu::row_threads), 0, cuda_stream_of(stream), rows_of<T>(p),
                     p.padded_columns, p.logsumexp, p.scale, dlogits, together),
          "cross-entropy gradient");
  });
}

}  // namespace

const CrossEntropyKernels& cuda_table(const CrossEntropyKernels*) {
  static constexpr CrossEntropyKernels kernels = {partial, combine, backward};
  return kernels;
}

}  // namespace trireme::kernels
