// The gradient of norms. A thread keeps its elements of a row, and the sums of its columns for
// dweight and dbias, in registers; a block sums a slab of rows. A second kernel (norm.cu) adds up
// the slabs.
#pragma once

#include "trireme/kernels/norm.h"

#include "kernels/cuda/gpu.cuh"

namespace trireme::kernels::gpu {

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

}  // namespace trireme::kernels::gpu
