// Token and position embedding. Gradients are added in the order of rows: rows are sorted by token,
// and one block has all rows of a token, so no atomics.
#include <utility>

#include "kernels/cuda/gpu.cuh"
#include "kernels/embedding.h"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

inline constexpr int channel_threads = 128;

/// The first channel of this thread; blocks along y take `channel_threads` vecs each.
template <int width>
__device__ __forceinline__ Index own_channel() {
  return (static_cast<Index>(blockIdx.y) * channel_threads + threadIdx.x) * width;
}

template <class T, int width>
__global__ void __launch_bounds__(channel_threads)
    embedding_kernel(const std::int32_t* tokens, const T* table, Index first, Index rows_of_table,
                     Index channels, T* y) {
  const Index row = blockIdx.x, c = own_channel<width>(), at = tokens[row] - first;
  if (c >= channels) return;
  Vec<T, width> vec{};
  if (at >= 0 && at < rows_of_table) vec = load<width>(table + at * channels + c);
  store_global(y + row * channels + c, vec);
}

// The sort key: the row of the table in the upper half, the row of dy in the lower one. So no two
// keys are equal, and the rows of a token stay in order. Tokens of other ranks come last.
inline constexpr int row_bits = 32;
inline constexpr Index no_row = (Index{1} << 31) - 1;

__device__ __forceinline__ Index table_row(Index key) { return key >> row_bits; }
__device__ __forceinline__ Index own_row(Index key) { return key & ((Index{1} << row_bits) - 1); }

/// The position of keys[i] after the sorted runs of `run` keys are merged in pairs. keys: (count).
__device__ __forceinline__ Index merged_position(const Index* keys, Index count, Index run,
                                                 Index i) {
  const Index key = keys[i], own = i / run, other = own ^ 1;
  const Index begin = other * run < count ? other * run : count;
  const Index end = begin + run < count ? begin + run : count;
  Index low = begin, high = end;  // of the other run, those before `low` are less
  while (low < high) {
    const Index middle = (low + high) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return (own < other ? own : other) * run + (i - own * run) + (low - begin);
}

inline constexpr int sort_tile = 1024;

/// Makes the keys and sorts those of a tile: a thread has one.
__global__ void __launch_bounds__(sort_tile)
    sort_tiles_kernel(const std::int32_t* tokens, Index rows, Index first, Index rows_of_table,
                      Index* keys) {
  __shared__ Index tile[sort_tile];
  const Index begin = static_cast<Index>(blockIdx.x) * sort_tile, i = threadIdx.x;
  const Index count = rows - begin < sort_tile ? rows - begin : sort_tile;
  const bool works = i < count;
  if (works) {
    const Index at = tokens[begin + i] - first;
    tile[i] = (at >= 0 && at < rows_of_table ? at : no_row) << row_bits | (begin + i);
  }
  __syncthreads();
  for (Index run = 1; run < count; run *= 2) {
    const Index key = works ? tile[i] : 0;
    const Index to = works ? merged_position(tile, count, run, i) : 0;
    __syncthreads();
    if (works) tile[to] = key;
    __syncthreads();
  }
  if (works) keys[begin + i] = tile[i];
}

__global__ void __launch_bounds__(elementwise_threads)
    merge_runs_kernel(const Index* keys, Index count, Index run, Index* merged) {
  const Index i = global_thread();
  if (i < count) merged[merged_position(keys, count, run, i)] = keys[i];
}

/// A block for every key: that of a token's first row adds all its rows, in order; the others
/// leave. Several loads are under way at once.
template <class T, int width>
__global__ void __launch_bounds__(channel_threads)
    embedding_backward_kernel(const Index* keys, const T* dy, float* dtable, Index rows,
                              Index channels) {
  const Index start = blockIdx.x, c = own_channel<width>(), at = table_row(keys[start]);
  if (at == no_row || c >= channels) return;
  if (start > 0 && table_row(keys[start - 1]) == at) return;
  constexpr int batch = 4;
  float* to = dtable + at * channels + c;
  Vec<float, width> sum = load<width>(to);
  for (Index i = start; i < rows && table_row(keys[i]) == at; i += batch) {
    Vec<T, width> loaded[batch];
    bool found[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      const Index key = i + k < rows ? keys[i + k] : no_row << row_bits;
      found[k] = table_row(key) == at;
      loaded[k] = found[k] ? load<width>(dy + own_row(key) * channels + c) : Vec<T, width>{};
    }
#pragma unroll
    for (int k = 0; k < batch; ++k)
      if (found[k])
        for (int j = 0; j < width; ++j) sum.values[j] += to_float(loaded[k].values[j]);
  }
  store_global(to, sum);
}

template <class T, int width>
__global__ void __launch_bounds__(channel_threads)
    position_kernel(const T* x, const T* table, Index sequence, Index first_row, Index channels,
                    T* y) {
  const Index row = blockIdx.x, c = own_channel<width>();
  if (c >= channels) return;
  Vec<float, width> v = load_floats<width>(x + row * channels + c);
  const Vec<float, width> t =
      load_floats<width>(table + (first_row + row) % sequence * channels + c);
  for (int k = 0; k < width; ++k) v.values[k] += t.values[k];
  store_global(y + row * channels + c, from_floats<T>(v));
}

/// A block for every position: its rows lie `sequence` apart.
template <class T, int width>
__global__ void __launch_bounds__(channel_threads)
    position_backward_kernel(const T* dy, float* dtable, Index sequence, Index first_row,
                             Index rows, Index channels) {
  const Index position = blockIdx.x, c = own_channel<width>();
  if (c >= channels) return;
  const Index ahead = position - first_row % sequence;
  float* to = dtable + position * channels + c;
  Vec<float, width> sum = load<width>(to);
#pragma unroll 4
  for (Index row = ahead < 0 ? ahead + sequence : ahead; row < rows; row += sequence) {
    const Vec<float, width> d = load_floats<width>(dy + row * channels + c);
    for (int k = 0; k < width; ++k) sum.values[k] += d.values[k];
  }
  store_global(to, sum);
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

/// `count` blocks (rows, or positions) for as many channels as the threads of a block take, and
/// again for the rest.
dim3 grid_of(Index count, Index channels, int width) {
  const Index tile = Index{gpu::channel_threads} * width;
  return {static_cast<unsigned>(count), static_cast<unsigned>((channels + tile - 1) / tile), 1};
}

/// Launches kernels.first, which takes packs of T, or kernels.second, which takes single elements.
template <class T, class Kernel, class... Arguments>
void launch(Stream& stream, Index blocks, Index channels, bool aligned, const char* what,
            std::pair<Kernel, Kernel> kernels, const Arguments&... arguments) {
  if (blocks == 0) return;
  constexpr int pack = gpu::Pack<T>::size;
  const bool packed = aligned && channels % pack == 0;
  const Kernel kernel = packed ? kernels.first : kernels.second;
  check(gpu_launch(kernel, grid_of(blocks, channels, packed ? pack : 1), dim3(gpu::channel_threads),
                   0, cuda_stream_of(stream), arguments...),
        what);
}

void forward(Stream& stream, const EmbeddingForward& p) {
  check_embedding(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    constexpr int pack = gpu::Pack<T>::size;
    launch<T>(stream, p.rows, p.channels, gpu::all_aligned(p.table, p.y), "embedding",
              std::pair{&gpu::embedding_kernel<T, pack>, &gpu::embedding_kernel<T, 1>}, p.tokens,
              static_cast<const T*>(p.table), p.first, p.rows_of_table, p.channels,
              static_cast<T*>(p.y));
  });
}

/// The keys of all rows, sorted, in the workspace: tiles first, then runs are merged by twos.
const Index* sort_rows(Stream& stream, const EmbeddingBackward& p) {
  const char* what = "sort of an embedding's rows";
  Index* keys = static_cast<Index*>(p.workspace);
  Index* other = keys + p.rows;
  const auto blocks = [&](int threads) {
    return dim3(static_cast<unsigned>((p.rows + threads - 1) / threads));
  };
  check(gpu_launch(gpu::sort_tiles_kernel, blocks(gpu::sort_tile), dim3(gpu::sort_tile), 0,
                   cuda_stream_of(stream), p.tokens, p.rows, p.first, p.rows_of_table, keys),
        what);
  for (Index run = gpu::sort_tile; run < p.rows; run *= 2) {
    check(gpu_launch(gpu::merge_runs_kernel, blocks(gpu::elementwise_threads),
                     dim3(gpu::elementwise_threads), 0, cuda_stream_of(stream), keys, p.rows, run,
                     other),
          what);
    std::swap(keys, other);
  }
  return keys;
}

void backward(Stream& stream, const EmbeddingBackward& p) {
  check_embedding(stream, p);
  if (p.rows == 0) return;
  const Index* keys = sort_rows(stream, p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    constexpr int pack = gpu::Pack<T>::size;
    launch<T>(
        stream, p.rows, p.channels, gpu::all_aligned(p.dy, p.dtable), "embedding gradient",
        std::pair{&gpu::embedding_backward_kernel<T, pack>, &gpu::embedding_backward_kernel<T, 1>},
        keys, static_cast<const T*>(p.dy), p.dtable, p.rows, p.channels);
  });
}

void position_forward(Stream& stream, const PositionForward& p) {
  check_positions(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    constexpr int pack = gpu::Pack<T>::size;
    launch<T>(stream, p.rows, p.channels, gpu::all_aligned(p.x, p.table, p.y), "positions",
              std::pair{&gpu::position_kernel<T, pack>, &gpu::position_kernel<T, 1>},
              static_cast<const T*>(p.x), static_cast<const T*>(p.table), p.sequence, p.first_row,
              p.channels, static_cast<T*>(p.y));
  });
}

void position_backward(Stream& stream, const PositionBackward& p) {
  check_positions(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    constexpr int pack = gpu::Pack<T>::size;
    launch<T>(
        stream, p.sequence, p.channels, gpu::all_aligned(p.dy, p.dtable), "position gradient",
        std::pair{&gpu::position_backward_kernel<T, pack>, &gpu::position_backward_kernel<T, 1>},
        static_cast<const T*>(p.dy), p.dtable, p.sequence, p.first_row, p.rows, p.channels);
  });
}

}  // namespace

const EmbeddingKernels& cuda_table(const EmbeddingKernels*) {
  static constexpr EmbeddingKernels kernels = {forward, backward, position_forward,
                                               position_backward};
  return kernels;
}

}  // namespace trireme::kernels
