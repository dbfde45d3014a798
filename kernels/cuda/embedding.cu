// Token and position embedding. Gradients are added in the order of rows: one block has all rows of a token, so no atomics.
#include <utility>

#include "kernels/cuda/gpu.cuh"

namespace trireme {
namespace gpu {

inline constexpr int channel_threads = 128;

/// The first channel of this thread; blocks along y take `channel_threads` chunks each.
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
  Chunk<T, width> chunk{};
  if (at >= 0 && at < rows_of_table) chunk = load<width>(table + at * channels + c);
  store(y + row * channels + c, chunk);
}

inline constexpr int tile_words = 32, tile_tokens = tile_words * warp_size;

/// The rows of one tile that hold a token, in their order.
struct Matches {
  unsigned words[tile_words];  // bit i of word w: row 32 w + i of the tile
  int rows[tile_tokens];       // within the tile
};

/// Fills `matches` with the rows of [begin, begin + tile_tokens) that hold `token`; returns how many. All threads of the block.
/// `rows` is written behind the first barrier: the list of the tile before may be read until the next call.
__device__ __forceinline__ int find_token(std::int32_t token, const std::int32_t* tokens,
                                          Index rows, Index begin, Matches& matches) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  for (int w = warp; w < tile_words; w += channel_threads / warp_size) {
    const Index row = begin + w * warp_size + lane;
    const unsigned word = __ballot_sync(all_lanes, row < rows && tokens[row] == token);
    if (lane == 0) matches.words[w] = word;
  }
  __syncthreads();
  int before = __popc(matches.words[lane]);  // then: in all words up to this lane's
  for (int offset = 1; offset < warp_size; offset *= 2) {
    const int other = __shfl_up_sync(all_lanes, before, offset);
    if (lane >= offset) before += other;
  }
  const int count = __shfl_sync(all_lanes, before, warp_size - 1);
  for (int w = warp; w < tile_words; w += channel_threads / warp_size) {
    const unsigned word = matches.words[w];
    const int start = __shfl_sync(all_lanes, before, w) - __popc(word);
    if (word >> lane & 1)
      matches.rows[start + __popc(word & ((1u << lane) - 1))] = w * warp_size + lane;
  }
  __syncthreads();
  return count;
}

/// sum += dy of the listed rows, in their order; four loads are under way at once.
template <int width, class T>
__device__ __forceinline__ void add_rows(Chunk<float, width>& sum, const T* dy, Index channels,
                                         const int* rows, int count) {
  constexpr int batch = 4;
  const auto add = [&](const Chunk<float, width>& chunk) {
    for (int k = 0; k < width; ++k) sum.values[k] += chunk.values[k];
  };
  int i = 0;
  for (; i + batch <= count; i += batch) {
    Chunk<float, width> loaded[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) loaded[j] = load_floats<width>(dy + rows[i + j] * channels);
#pragma unroll
    for (int j = 0; j < batch; ++j) add(loaded[j]);
  }
  for (; i < count; ++i) add(load_floats<width>(dy + rows[i] * channels));
}

/// A block for every row of dy: the block of a token's first row adds all rows of that token; the others find an earlier row
/// and leave. Reads the tokens up to rows times, from the cache.
template <class T, int width>
__global__ void __launch_bounds__(channel_threads)
    embedding_backward_kernel(const std::int32_t* tokens, const T* dy, float* dtable, Index first,
                              Index rows_of_table, Index rows, Index channels) {
  __shared__ Matches matches;
  const Index own = blockIdx.x, c = own_channel<width>();
  const std::int32_t token = tokens[own];
  const Index at = token - first;
  if (at < 0 || at >= rows_of_table) return;
  const bool works = c < channels;  // the others help to search
  float* to = dtable + at * channels + c;
  Chunk<float, width> sum{};
  for (Index begin = 0; begin < rows; begin += tile_tokens) {
    const int count = find_token(token, tokens, rows, begin, matches);
    if (count == 0) continue;
    if (begin + matches.rows[0] < own) return;
    if (!works) continue;
    if (begin + matches.rows[0] == own) sum = load<width>(to);
    add_rows(sum, dy + begin * channels + c, channels, matches.rows, count);
  }
  if (works) store(to, sum);
}

template <class T, int width>
__global__ void __launch_bounds__(channel_threads)
    position_kernel(const T* x, const T* table, Index sequence, Index first_row, Index channels,
                    T* y) {
  const Index row = blockIdx.x, c = own_channel<width>();
  if (c >= channels) return;
  Chunk<float, width> v = load_floats<width>(x + row * channels + c);
  const Chunk<float, width> t =
      load_floats<width>(table + (first_row + row) % sequence * channels + c);
  for (int k = 0; k < width; ++k) v.values[k] += t.values[k];
  store_floats(y + row * channels + c, v);
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
  Chunk<float, width> sum = load<width>(to);
#pragma unroll 4
  for (Index row = ahead < 0 ? ahead + sequence : ahead; row < rows; row += sequence) {
    const Chunk<float, width> d = load_floats<width>(dy + row * channels + c);
    for (int k = 0; k < width; ++k) sum.values[k] += d.values[k];
  }
  store(to, sum);
}

}  // namespace gpu

namespace {

using Element = float;  // of activations and tables in today's table of functions
constexpr int pack = gpu::Pack<Element>::size;

/// `count` blocks (rows, or positions) for as many channels as the threads of a block take, and again for the rest.
dim3 grid_of(Index count, Index channels, int width) {
  const Index tile = Index{gpu::channel_threads} * width;
  return {static_cast<unsigned>(count), static_cast<unsigned>((channels + tile - 1) / tile), 1};
}

/// Launches kernels.first, which takes packs, or kernels.second, which takes single elements.
template <class Kernel, class... Arguments>
void launch(Stream& stream, Index blocks, Index channels, bool aligned, const char* what,
            std::pair<Kernel, Kernel> kernels, const Arguments&... arguments) {
  if (blocks == 0) return;
  const bool packed = aligned && channels % pack == 0;
  const Kernel kernel = packed ? kernels.first : kernels.second;
  check(gpu_launch(kernel, grid_of(blocks, channels, packed ? pack : 1), dim3(gpu::channel_threads),
                   0, queue_of(stream), arguments...),
        what);
}

void forward(Stream& stream, const EmbeddingForward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding of (", p.rows, ", ", p.channels, ")");
  launch(stream, p.rows, p.channels, gpu::aligned16(p.table) && gpu::aligned16(p.y), "embedding",
         std::pair{&gpu::embedding_kernel<Element, pack>, &gpu::embedding_kernel<Element, 1>},
         p.tokens, p.table, p.first, p.rows_of_table, p.channels, p.y);
}

void backward(Stream& stream, const EmbeddingBackward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding gradient of (", p.rows, ", ", p.channels, ")");
  launch(stream, p.rows, p.channels, gpu::aligned16(p.dy) && gpu::aligned16(p.dtable),
         "embedding gradient",
         std::pair{&gpu::embedding_backward_kernel<Element, pack>,
                   &gpu::embedding_backward_kernel<Element, 1>},
         p.tokens, p.dy, p.dtable, p.first, p.rows_of_table, p.rows, p.channels);
}

void check_positions(Index rows, Index channels, Index sequence, Index first_row) {
  require(rows >= 0 && channels >= 1 && sequence >= 1 && first_row >= 0, "positions of (", rows,
          ", ", channels, ") in sequences of ", sequence, " from row ", first_row);
}

void position_forward(Stream& stream, const PositionForward& p) {
  check_positions(p.rows, p.channels, p.sequence, p.first_row);
  launch(stream, p.rows, p.channels,
         gpu::aligned16(p.x) && gpu::aligned16(p.table) && gpu::aligned16(p.y), "positions",
         std::pair{&gpu::position_kernel<Element, pack>, &gpu::position_kernel<Element, 1>}, p.x,
         p.table, p.sequence, p.first_row, p.channels, p.y);
}

void position_backward(Stream& stream, const PositionBackward& p) {
  check_positions(p.rows, p.channels, p.sequence, p.first_row);
  launch(stream, p.sequence, p.channels, gpu::aligned16(p.dy) && gpu::aligned16(p.dtable),
         "position gradient",
         std::pair{&gpu::position_backward_kernel<Element, pack>,
                   &gpu::position_backward_kernel<Element, 1>},
         p.dy, p.dtable, p.sequence, p.first_row, p.rows, p.channels);
}

}  // namespace

const EmbeddingKernels cuda_embedding_kernels = {forward, backward, position_forward,
                                                 position_backward};

}  // namespace trireme
