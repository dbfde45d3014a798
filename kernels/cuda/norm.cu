// LayerNorm and RMSNorm. A thread keeps its elements of a row in registers, as they are stored, so
// that memory is read and written once; what a wide row has beyond them is read again. Here:
// forward, and the launchers of both passes.
#include <algorithm>

#include "kernels/cuda/norm_backward.cuh"
#include "kernels/norm.h"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

/// The arguments of NormForward in the storage type T.
template <class T>
struct NormRows {
  NormKind kind;
  Index channels;
  float epsilon;
  const T *x, *delta, *weight, *bias;
  T *sum, *y;
  float *mean, *rstd;
};

inline constexpr int forward_vecs = 4;  // of its row that a thread keeps

/// x + delta as it is stored.
template <class T, int width>
__device__ __forceinline__ Vec<T, width> sum_of(const Vec<T, width>& x,
                                                const Vec<T, width>& delta) {
  Vec<float, width> sum = to_floats(x);
  const Vec<float, width> d = to_floats(delta);
  for (int k = 0; k < width; ++k) sum.values[k] += d.values[k];
  return from_floats<T>(sum);
}

/// One block a row.
template <class T, int width>
__global__ void __launch_bounds__(most_norm_threads) norm_forward_kernel(NormRows<T> p) {
  __shared__ float scratch[2][most_warps];
  const Index n = p.channels, base = static_cast<Index>(blockIdx.x) * n;
  const Index first = static_cast<Index>(threadIdx.x) * width,
              step = static_cast<Index>(blockDim.x) * width;
  const float inverse_n = 1.0f / static_cast<float>(n);
  const T* again = (p.delta != nullptr ? p.sum : p.x) + base;  // read by the thread that wrote it

  Vec<T, width> kept[forward_vecs], deltas[forward_vecs];
  for (int i = 0; i < forward_vecs; ++i)
    if (const Index c = first + i * step; c < n) {
      kept[i] = load<width>(p.x + base + c);
      if (p.delta != nullptr) deltas[i] = load<width>(p.delta + base + c);
    }
  if (p.delta != nullptr) {
    for (int i = 0; i < forward_vecs; ++i)
      if (const Index c = first + i * step; c < n)
        store_global(p.sum + base + c, kept[i] = sum_of(kept[i], deltas[i]));
    for (Index c = first + forward_vecs * step; c < n; c += step)
      store_global(p.sum + base + c,
                   sum_of(load<width>(p.x + base + c), load<width>(p.delta + base + c)));
  }
  const auto for_vecs = [&](auto f) {  // f(column, vec of s)
    for (int i = 0; i < forward_vecs; ++i)
      if (const Index c = first + i * step; c < n) f(c, to_floats(kept[i]));
    for (Index c = first + forward_vecs * step; c < n; c += step)
      f(c, load_floats<width>(again + c));
  };

  float mean = 0;
  if (p.kind == NormKind::layer) {
    float total = 0;
    for_vecs([&](Index, const Vec<float, width>& s) {
      for (int k = 0; k < width; ++k) total += s.values[k];
    });
    mean = block_reduce(total, Sum(), scratch[0]) * inverse_n;
  }
  float squares = 0;
  for_vecs([&](Index, const Vec<float, width>& s) {
    for (int k = 0; k < width; ++k) squares += (s.values[k] - mean) * (s.values[k] - mean);
  });
  const float variance = block_reduce(squares, Sum(), scratch[1]) * inverse_n;
  const float rstd = 1.0f / sqrtf(variance + p.epsilon);

  for_vecs([&](Index c, Vec<float, width> s) {
    const Vec<float, width> w = load_floats<width>(p.weight + c);
    for (int k = 0; k < width; ++k) s.values[k] = (s.values[k] - mean) * rstd * w.values[k];
    if (p.bias != nullptr) {
      const Vec<float, width> b = load_floats<width>(p.bias + c);
      for (int k = 0; k < width; ++k) s.values[k] += b.values[k];
    }
    store_global(p.y + base + c, from_floats<T>(s));
  });
  if (threadIdx.x != 0) return;
  if (p.mean != nullptr) p.mean[blockIdx.x] = mean;
  p.rstd[blockIdx.x] = rstd;
}

inline constexpr int slab_columns = 32, slab_lanes = 16;

/// dparameter += the slabs' sums, in a fixed order. A block takes 32 columns, of dweight
/// (blockIdx.y = 0) or dbias (1).
__global__ void __launch_bounds__(slab_columns* slab_lanes)
    add_slabs_kernel(const float* dweights, const float* dbiases, Index slabs, Index channels,
                     float* dweight, float* dbias) {
  __shared__ float partial[slab_lanes][slab_columns];
  const float* sums = blockIdx.y == 0 ? dweights : dbiases;
  float* parameter = blockIdx.y == 0 ? dweight : dbias;
  if (parameter == nullptr) return;
  const Index column = static_cast<Index>(blockIdx.x) * slab_columns + threadIdx.x;
  float sum = 0;
  if (column < channels)
    for (Index slab = threadIdx.y; slab < slabs; slab += slab_lanes)
      sum += sums[slab * channels + column];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= channels) return;
  float total = 0;
  for (int r = 0; r < slab_lanes; ++r) total += partial[r][threadIdx.x];
  parameter[column] += total;
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

template <class T>
bool all_aligned(Index channels, std::initializer_list<const void*> operands) {
  return channels % gpu::Pack<T>::size == 0 &&
         std::all_of(operands.begin(), operands.end(), gpu::aligned16);
}

template <class T, int width>
void launch_forward(Stream& stream, const NormForward& p) {
  const gpu::NormRows<T> rows{p.kind,
                              p.channels,
                              p.epsilon,
                              static_cast<const T*>(p.x),
                              static_cast<const T*>(p.delta),
                              static_cast<const T*>(p.weight),
                              static_cast<const T*>(p.bias),
                              static_cast<T*>(p.sum),
                              static_cast<T*>(p.y),
                              p.mean,
                              p.rstd};
  const Index threads = gpu::threads_of_row(p.channels / width, gpu::forward_vecs);
  check(gpu_launch(gpu::norm_forward_kernel<T, width>, dim3(static_cast<unsigned>(p.rows)),
                   dim3(static_cast<unsigned>(threads)), 0, cuda_stream_of(stream), rows),
        "norm");
}

void forward(Stream& stream, const NormForward& p) {
  check_norm(p);
  if (p.rows == 0) return;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    all_aligned<T>(p.channels, {p.x, p.delta, p.weight, p.bias, p.sum, p.y})
        ? launch_forward<T, gpu::Pack<T>::size>(stream, p)
        : launch_forward<T, 1>(stream, p);
  });
}

template <class T, int width>
void launch_backward(Stream& stream, const gpu::NormGradients<T>& p, Index slabs) {
  constexpr Index sum_bytes = gpu::sums_of_block * static_cast<Index>(sizeof(float));
  const Index limit =
      shared_bytes_of(stream) - static_cast<Index>(2 * gpu::most_warps * sizeof(gpu::Pair));
  require(p.channels * sum_bytes <= limit, "norm gradient of ", p.channels,
          " channels: the shared memory of this GPU holds ", limit / sum_bytes);
  const gpu::NormGroups groups = gpu::norm_groups(p.channels, gpu::backward_elements<width>);
  check(gpu_launch(gpu::norm_backward_kernel<T, width>, dim3(static_cast<unsigned>(slabs)),
                   dim3(static_cast<unsigned>(groups.threads), static_cast<unsigned>(groups.rows)),
                   static_cast<std::size_t>(p.channels * sum_bytes), cuda_stream_of(stream), p),
        "norm gradient");
}

void backward(Stream& stream, const NormBackward& p) {
  check_norm(p);
  const bool parameters = p.dweight != nullptr || p.dbias != nullptr;
  if (p.rows == 0 || (p.dx == nullptr && !parameters)) return;
  const Index slabs = gpu::norm_slabs(multiprocessors_of(stream), p.rows, p.channels);
  float* workspace = static_cast<float*>(p.workspace);
  float* dweights = p.dweight == nullptr ? nullptr : workspace;
  float* dbiases = p.dbias == nullptr ? nullptr : workspace + slabs * p.channels;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::NormGradients<T> rows{p.kind,
                                     p.rows,
                                     p.channels,
                                     static_cast<const T*>(p.s),
                                     static_cast<const T*>(p.weight),
                                     p.mean,
                                     p.rstd,
                                     static_cast<const T*>(p.dy),
                                     static_cast<const T*>(p.dsum),
                                     static_cast<T*>(p.dx),
                                     p.write_dx,
                                     dweights,
                                     dbiases};
    all_aligned<T>(p.channels, {p.s, p.weight, p.dy, p.dsum, p.dx, p.workspace})
        ? launch_backward<T, gpu::Pack<T>::size>(stream, rows, slabs)
        : launch_backward<T, 1>(stream, rows, slabs);
  });
  if (!parameters) return;
  const auto tiles =
      static_cast<unsigned>((p.channels + gpu::slab_columns - 1) / gpu::slab_columns);
  check(
      gpu_launch(gpu::add_slabs_kernel, dim3(tiles, 2), dim3(gpu::slab_columns, gpu::slab_lanes), 0,
                 cuda_stream_of(stream), dweights, dbiases, slabs, p.channels, p.dweight, p.dbias),
      "norm gradient");
}

}  // namespace

const NormKernels& cuda_table(const NormKernels*) {
  static constexpr NormKernels kernels = {forward, backward};
  return kernels;
}

}  // namespace trireme::kernels
