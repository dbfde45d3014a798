// LayerNorm and RMSNorm. A thread keeps its elements of a row in registers, as they are stored, so
// that memory is read and written once; what a wide row has beyond them is read again. Here:
// forward, and the launchers of both passes.
#include <algorithm>

#include "trireme/kernels/norm.h"

#include "kernels/cuda/gpu.cuh"
#include "kernels/norm.h"

namespace trireme::kernels::gpu {
namespace {

// The gradient of norms. A thread keeps its elements of a row, and the sums of its columns for
// dweight and dbias, in registers; a block sums a slab of rows. A second kernel adds up
// the slabs.

inline constexpr int most_warps = most_norm_threads / warp_size;

struct Pair {
  float a, b;
};

/// The sums over the threads of a row (threadIdx.x), in a fixed order. One barrier of the whole
/// block, so a caller in a loop must alternate between two `scratch`.
__device__ __forceinline__ Pair row_sum(Pair pair, Pair* scratch) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  Pair* of_row = scratch + static_cast<int>(threadIdx.y) * warps;
  pair = {warp_reduce(pair.a, Sum()), warp_reduce(pair.b, Sum())};
  if (thread % warp_size == 0) of_row[thread / warp_size] = pair;
  __syncthreads();
  Pair total = of_row[0];
  for (int w = 1; w < warps; ++w) {
    total.a += of_row[w].a;
    total.b += of_row[w].b;
  }
  return total;
}

/// The arguments of NormBackward in the storage type T.
template <class T>
struct NormGradients {
  NormKind kind;
  Index rows, channels;
  const T *s, *weight;       // (rows, channels), (channels)
  const float *mean, *rstd;  // (rows)
  const T *dy, *dsum;        // (rows, channels); dsum: gradient that arrives at s directly, or null
  T* dx;                     // (rows, channels)
  Write write_dx;
  float *dweights, *dbiases;  // (slabs, channels), or null
};

/// Shared memory: sums of dweight and dbias, (channels) floats each.
inline constexpr int sums_of_block = 2;

/// The row of `to`, (blocks, channels), that belongs to this block: what its groups of threads
/// kept, added up in their order in `shared`, where the columns beyond are already. `to`: null when
/// it is not wanted.
template <int width, int vecs>
__device__ __forceinline__ void store_sums(const Vec<float, width> (&kept)[vecs], float* shared,
                                           Index channels, float* to) {
  if (to == nullptr) return;
  const Index first = static_cast<Index>(threadIdx.x) * width,
              step = static_cast<Index>(blockDim.x) * width;
  const int groups = static_cast<int>(blockDim.y);
  for (int group = 0; group < groups; ++group) {
    for (int i = 0; i < vecs && static_cast<int>(threadIdx.y) == group; ++i)
      if (const Index c = first + i * step; c < channels) {
        Vec<float, width> sum = kept[i];
        if (group > 0) {
          const Vec<float, width> before = load<width>(shared + c);
          for (int k = 0; k < width; ++k) sum.values[k] += before.values[k];
        }
        store(shared + c, sum);
      }
    __syncthreads();
  }
  to += blockIdx.x * channels;
  for (Index c = first + threadIdx.y * step; c < channels; c += step * groups)
    store_global(to + c, load<width>(shared + c));
}

/// What is known of a row: its statistics, and before dx is written the means of g h and of g,
/// where g = dy weight.
struct NormRow {
  float mean, rstd, mean_gh = 0, mean_g = 0;
};

/// h = (s - mean) rstd.
template <class T, int width>
__device__ __forceinline__ Vec<float, width> normalised(const NormRow& row,
                                                        const Vec<T, width>& s) {
  Vec<float, width> h = to_floats(s);
  for (int k = 0; k < width; ++k) h.values[k] = (h.values[k] - row.mean) * row.rstd;
  return h;
}

/// Adds a vec to the sums over its row, of g h and of g, and to those over its columns.
template <class T, int width>
__device__ __forceinline__ void add_to_sums(const NormRow& row, const T* weight,
                                            const Vec<T, width>& s, const Vec<T, width>& dy,
                                            Pair& sums, Vec<float, width>& dweight,
                                            Vec<float, width>& dbias) {
  const Vec<float, width> h = normalised(row, s), d = to_floats(dy), w = load_floats<width>(weight);
  for (int k = 0; k < width; ++k) {
    const float g = d.values[k] * w.values[k];
    sums.a += g * h.values[k];
    sums.b += g;
    dweight.values[k] += d.values[k] * h.values[k];
    dbias.values[k] += d.values[k];
  }
}

/// dx of a vec at `at` in column c.
template <class T, int width>
__device__ __forceinline__ void write_gradient(const NormGradients<T>& p, const NormRow& row,
                                               Index at, Index c, const Vec<T, width>& s,
                                               const Vec<T, width>& dy, const Vec<T, width>& dsum) {
  using Floats = Vec<float, width>;
  const Floats h = normalised(row, s), w = load_floats<width>(p.weight + c), m = to_floats(dsum);
  Floats g = to_floats(dy);
  for (int k = 0; k < width; ++k) {
    g.values[k] = (g.values[k] * w.values[k] - row.mean_g - h.values[k] * row.mean_gh) * row.rstd;
    if (p.dsum != nullptr) g.values[k] += m.values[k];
  }
  if (p.write_dx == Write::add) {
    const Floats old = load_floats<width>(p.dx + at);
    for (int k = 0; k < width; ++k) g.values[k] += old.values[k];
  }
  store_global(p.dx + at, from_floats<T>(g));
}

/// dx = rstd (g - mean(g) - h mean(g h)), without mean(g) for RMSNorm. A block takes a slab of
/// rows, blockDim.y at a time: one when a row is wider than what its threads keep.
template <class T, int width>
__global__ void __launch_bounds__(most_norm_threads) norm_backward_kernel(NormGradients<T> p) {
  constexpr int vecs = backward_elements<width> / width;
  using Stored = Vec<T, width>;
  using Floats = Vec<float, width>;
  GPU_DYNAMIC_SHARED(float, shared);
  __shared__ Pair scratch[2][most_warps];
  const Index n = p.channels;
  float *dweight = shared, *dbias = shared + n;
  const Index first = static_cast<Index>(threadIdx.x) * width,
              step = static_cast<Index>(blockDim.x) * width;
  const Index beyond = first + vecs * step;  // columns from here on are not kept
  const float inverse_n = 1.0f / static_cast<float>(n);
  const bool layer = p.kind == NormKind::layer;
  Floats dweight_kept[vecs] = {}, dbias_kept[vecs] = {};
  for (Index c = beyond; c < n; c += step) {
    store(dweight + c, Floats{});
    store(dbias + c, Floats{});
  }

  const Index slab = blockIdx.x, slabs = gridDim.x;
  const Index begin = p.rows * slab / slabs, end = p.rows * (slab + 1) / slabs;
  const int groups = static_cast<int>(blockDim.y);
  for (Index turn = 0; begin + turn * groups < end; ++turn) {
    const Index index = begin + turn * groups + threadIdx.y, base = index * n;
    const bool exists = index < end;  // who has no row takes part in the barriers
    const Index columns = exists ? n : 0;
    NormRow row{layer && exists ? p.mean[index] : 0.0f, exists ? p.rstd[index] : 0.0f};

    Stored s[vecs], dy[vecs], dsum[vecs] = {};
    for (int i = 0; i < vecs; ++i)
      if (const Index c = first + i * step; c < columns) {
        s[i] = load<width>(p.s + base + c);
        dy[i] = load<width>(p.dy + base + c);
        if (p.dsum != nullptr) dsum[i] = load<width>(p.dsum + base + c);
      }
    Pair sums = {0, 0};
    for (int i = 0; i < vecs; ++i)
      if (const Index c = first + i * step; c < columns)
        add_to_sums(row, p.weight + c, s[i], dy[i], sums, dweight_kept[i], dbias_kept[i]);
    for (Index c = beyond; c < columns; c += step) {
      Floats w = load<width>(dweight + c), b = load<width>(dbias + c);
      add_to_sums(row, p.weight + c, load<width>(p.s + base + c), load<width>(p.dy + base + c),
                  sums, w, b);
      store(dweight + c, w);
      store(dbias + c, b);
    }
    if (p.dx == nullptr) continue;
    sums = row_sum(sums, scratch[turn % 2]);
    row.mean_gh = sums.a * inverse_n;
    row.mean_g = layer ? sums.b * inverse_n : 0.0f;
    for (int i = 0; i < vecs; ++i)
      if (const Index c = first + i * step; c < columns)
        write_gradient(p, row, base + c, c, s[i], dy[i], dsum[i]);
    for (Index c = beyond; c < columns; c += step)
      write_gradient(p, row, base + c, c, load<width>(p.s + base + c), load<width>(p.dy + base + c),
                     p.dsum != nullptr ? load<width>(p.dsum + base + c) : Stored{});
  }
  store_sums(dweight_kept, dweight, n, p.dweights);
  store_sums(dbias_kept, dbias, n, p.dbiases);
}

}  // namespace
}  // namespace trireme::kernels::gpu

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
