// LayerNorm and RMSNorm. A block takes a row at a time and keeps it in shared memory, where every thread only ever touches
// its own elements: memory is read and written once. Parameter gradients are summed along the way, slab by slab of rows.
#include <algorithm>

#include "kernels/cuda/gpu.cuh"
#include "kernels/shape_checks.h"

namespace trireme {
namespace gpu {

inline constexpr int most_norm_threads = 512, most_warps = 32;

struct Pair {
  float a, b;
};

/// The sums over the block, in a fixed order. One barrier: who calls in a loop passes two `scratch` in turn.
__device__ __forceinline__ Pair block_sum(Pair pair, Pair* scratch) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  pair = {warp_reduce(pair.a, Sum()), warp_reduce(pair.b, Sum())};
  if (thread % warp_size == 0) scratch[thread / warp_size] = pair;
  __syncthreads();
  Pair total = scratch[0];
  for (int w = 1; w < threads / warp_size; ++w) {
    total.a += scratch[w].a;
    total.b += scratch[w].b;
  }
  return total;
}

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

/// One block a row. `staged`: s is kept in shared memory (channels elements), else it is read again.
template <class T, int width, bool staged>
__global__ void __launch_bounds__(most_norm_threads) norm_forward_kernel(NormRows<T> p) {
  GPU_DYNAMIC_SHARED(T, row);
  __shared__ float scratch[2][most_warps];
  const Index n = p.channels, base = static_cast<Index>(blockIdx.x) * n;
  const Index first = static_cast<Index>(threadIdx.x) * width,
              step = static_cast<Index>(blockDim.x) * width;
  const float inverse_n = 1.0f / static_cast<float>(n);
  const T* again = (p.delta != nullptr ? p.sum : p.x) + base;  // read by the thread that wrote it
  const auto s = [&](Index c) { return load_floats<width>((staged ? row : again) + c); };

  float total = 0;
  for (Index c = first; c < n; c += step) {
    Chunk<float, width> v = load_floats<width>(p.x + base + c);
    if (p.delta != nullptr) {
      const Chunk<float, width> d = load_floats<width>(p.delta + base + c);
      for (int k = 0; k < width; ++k)
        v.values[k] = to_float(from_float<T>(v.values[k] + d.values[k]));  // as it is stored
      store_floats(p.sum + base + c, v);
    }
    if (staged) store_floats(row + c, v);
    for (int k = 0; k < width; ++k) total += v.values[k];
  }
  const float mean =
      p.kind == NormKind::layer ? block_reduce(total, Sum(), scratch[0]) * inverse_n : 0.0f;

  float squares = 0;
  for (Index c = first; c < n; c += step) {
    const Chunk<float, width> v = s(c);
    for (int k = 0; k < width; ++k) squares += (v.values[k] - mean) * (v.values[k] - mean);
  }
  const float variance = block_reduce(squares, Sum(), scratch[1]) * inverse_n;
  const float rstd = 1.0f / sqrtf(variance + p.epsilon);

  for (Index c = first; c < n; c += step) {
    Chunk<float, width> v = s(c);
    const Chunk<float, width> w = load_floats<width>(p.weight + c);
    for (int k = 0; k < width; ++k) v.values[k] = (v.values[k] - mean) * rstd * w.values[k];
    if (p.bias != nullptr) {
      const Chunk<float, width> b = load_floats<width>(p.bias + c);
      for (int k = 0; k < width; ++k) v.values[k] += b.values[k];
    }
    store_floats(p.y + base + c, v);
  }
  if (threadIdx.x != 0) return;
  if (p.mean != nullptr) p.mean[blockIdx.x] = mean;
  p.rstd[blockIdx.x] = rstd;
}

/// The arguments of NormBackward in the storage type T. `dweights`, `dbiases`: (slabs, channels), or null.
template <class T>
struct NormGradients {
  NormKind kind;
  Index rows, channels;
  const T *s, *weight;
  const float *mean, *rstd;
  const T *dy, *dsum;
  T* dx;
  Write write_dx;
  float *dweights, *dbiases;
};

/// Shared memory of the backward kernel, (channels) floats each: sums of dweight and dbias, then g and h when `staged`.
inline constexpr Index sums_of_block = 2, staged_of_block = 2;

/// g = dy weight, h = (s - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)), without mean(g) for RMSNorm. A block takes a
/// slab of rows, one after the other.
template <class T, int width, bool staged>
__global__ void __launch_bounds__(most_norm_threads) norm_backward_kernel(NormGradients<T> p) {
  GPU_DYNAMIC_SHARED(float, shared);
  __shared__ Pair scratch[2][most_warps];
  const Index n = p.channels;
  float* dweight = shared;
  float* dbias = shared + n;
  float* all_g = shared + 2 * n;
  float* all_h = shared + 3 * n;
  const Index first = static_cast<Index>(threadIdx.x) * width,
              step = static_cast<Index>(blockDim.x) * width;
  const float inverse_n = 1.0f / static_cast<float>(n);
  const bool layer = p.kind == NormKind::layer;
  for (Index c = first; c < n; c += step) {
    store(dweight + c, Chunk<float, width>{});
    store(dbias + c, Chunk<float, width>{});
  }

  const Index slab = blockIdx.x, slabs = gridDim.x, end = p.rows * (slab + 1) / slabs;
  for (Index row = p.rows * slab / slabs; row < end; ++row) {
    const Index base = row * n;
    const float mean = layer ? p.mean[row] : 0.0f, rstd = p.rstd[row];
    const auto normalised = [&](Index c) {
      Chunk<float, width> v = load_floats<width>(p.s + base + c);
      for (int k = 0; k < width; ++k) v.values[k] = (v.values[k] - mean) * rstd;
      return v;
    };
    const auto weighted = [&](Index c, Chunk<float, width> d) {
      const Chunk<float, width> w = load_floats<width>(p.weight + c);
      for (int k = 0; k < width; ++k) d.values[k] *= w.values[k];
      return d;
    };

    Pair sums = {0, 0};
    for (Index c = first; c < n; c += step) {
      const Chunk<float, width> d = load_floats<width>(p.dy + base + c), h = normalised(c),
                                g = weighted(c, d);
      Chunk<float, width> w = load<width>(dweight + c), b = load<width>(dbias + c);
      for (int k = 0; k < width; ++k) {
        sums.a += g.values[k] * h.values[k];
        sums.b += g.values[k];
        w.values[k] += d.values[k] * h.values[k];
        b.values[k] += d.values[k];
      }
      store(dweight + c, w);
      store(dbias + c, b);
      if (staged) store(all_g + c, g);
      if (staged) store(all_h + c, h);
    }
    if (p.dx == nullptr) continue;
    sums = block_sum(sums, scratch[row % 2]);
    const float along = sums.a * inverse_n, mean_g = layer ? sums.b * inverse_n : 0.0f;

    for (Index c = first; c < n; c += step) {
      const Chunk<float, width> h = staged ? load<width>(all_h + c) : normalised(c);
      Chunk<float, width> g =
          staged ? load<width>(all_g + c) : weighted(c, load_floats<width>(p.dy + base + c));
      for (int k = 0; k < width; ++k)
        g.values[k] = (g.values[k] - mean_g - h.values[k] * along) * rstd;
      const T* old = p.write_dx == Write::add ? p.dx : nullptr;
      for (const T* more : {p.dsum, old}) {
        if (more == nullptr) continue;
        const Chunk<float, width> m = load_floats<width>(more + base + c);
        for (int k = 0; k < width; ++k) g.values[k] += m.values[k];
      }
      store_floats(p.dx + base + c, g);
    }
  }
  for (Index c = first; c < n; c += step) {
    if (p.dweights != nullptr) store(p.dweights + slab * n + c, load<width>(dweight + c));
    if (p.dbiases != nullptr) store(p.dbiases + slab * n + c, load<width>(dbias + c));
  }
}

inline constexpr int column_tile = 32, slab_lanes = 16;

/// dparameter += the slabs' sums, in a fixed order. A block takes 32 columns, of dweight (blockIdx.y = 0) or dbias (1).
__global__ void __launch_bounds__(column_tile* slab_lanes)
    add_slabs_kernel(const float* dweights, const float* dbiases, Index slabs, Index channels,
                     float* dweight, float* dbias) {
  __shared__ float partial[slab_lanes][column_tile];
  const float* sums = blockIdx.y == 0 ? dweights : dbiases;
  float* parameter = blockIdx.y == 0 ? dweight : dbias;
  if (parameter == nullptr) return;
  const Index column = static_cast<Index>(blockIdx.x) * column_tile + threadIdx.x;
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

/// Threads for rows of `chunks`, of which each takes up to `each`: whole warps.
unsigned threads_for(Index chunks, Index each) {
  const Index warps = (chunks + each * gpu::warp_size - 1) / (each * gpu::warp_size);
  return static_cast<unsigned>(std::min<Index>(warps * gpu::warp_size, gpu::most_norm_threads));
}

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
  const Index bytes = p.channels * static_cast<Index>(sizeof(T));
  const bool staged = bytes <= gpu::shared_bytes_always;
  const auto kernel =
      staged ? gpu::norm_forward_kernel<T, width, true> : gpu::norm_forward_kernel<T, width, false>;
  check(gpu_launch(kernel, dim3(static_cast<unsigned>(p.rows)),
                   dim3(threads_for(p.channels / width, 4)),
                   static_cast<std::size_t>(staged ? bytes : 0), queue_of(stream), rows),
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

/// As many as the device runs at once, four rows each at least. The same for both storage types.
Index slabs_of(int multiprocessors, Index rows, Index channels) {
  constexpr Index pack = gpu::Pack<float>::size;
  constexpr Index resident_threads = 1024, most_blocks = 4, least_rows = 4;
  const Index blocks = std::clamp<Index>(
      resident_threads / threads_for((channels + pack - 1) / pack, 1), 1, most_blocks);
  return std::clamp<Index>(rows / least_rows, 1, multiprocessors * blocks);
}

Index backward_workspace_bytes(Device& device, Index rows, Index channels) {
  const int multiprocessors = static_cast<CudaDevice&>(device).multiprocessors();
  return slabs_of(multiprocessors, rows, channels) * 2 * channels *
         static_cast<Index>(sizeof(float));
}

template <class T, int width>
void launch_backward(Stream& stream, const gpu::NormGradients<T>& p, Index slabs) {
  const Index array_bytes = p.channels * static_cast<Index>(sizeof(float));
  const Index limit =
      shared_bytes_of(stream) - static_cast<Index>(2 * gpu::most_warps * sizeof(gpu::Pair));
  const Index least = gpu::sums_of_block * array_bytes,
              wanted = least + gpu::staged_of_block * array_bytes;
  require(least <= limit, "norm gradient of ", p.channels, " channels: this GPU has room for ",
          limit / (gpu::sums_of_block * static_cast<Index>(sizeof(float))));
  const bool staged = wanted <= limit;
  const auto kernel = staged ? gpu::norm_backward_kernel<T, width, true>
                             : gpu::norm_backward_kernel<T, width, false>;
  const Index bytes = staged ? wanted : least;
  check(gpu_launch(kernel, dim3(static_cast<unsigned>(slabs)),
                   dim3(threads_for(p.channels / width, 1)), static_cast<std::size_t>(bytes),
                   queue_of(stream), p),
        "norm gradient");
}

void backward(Stream& stream, const NormBackward& p) {
  check_norm(p);
  const bool parameters = p.dweight != nullptr || p.dbias != nullptr;
  if (p.rows == 0 || (p.dx == nullptr && !parameters)) return;
  const Index slabs = slabs_of(multiprocessors_of(stream), p.rows, p.channels);
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
  const auto tiles = static_cast<unsigned>((p.channels + gpu::column_tile - 1) / gpu::column_tile);
  check(gpu_launch(gpu::add_slabs_kernel, dim3(tiles, 2), dim3(gpu::column_tile, gpu::slab_lanes),
                   0, queue_of(stream), dweights, dbiases, slabs, p.channels, p.dweight, p.dbias),
        "norm gradient");
}

}  // namespace

const NormKernels cuda_norm_kernels = {forward, backward, backward_workspace_bytes};

}  // namespace trireme
