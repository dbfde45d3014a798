// Rotary position embedding. A block turns a row; the table is small and stays in the caches.
#include <algorithm>

#include "kernels/cuda/gpu.cuh"
#include "kernels/shape_checks.h"

namespace trireme {
namespace gpu {

inline constexpr int most_rotary_threads = 256;

template <class T>
struct RotaryRows {
  Index sequence;
  int heads, head_dim, row_stride;
  float sign;  // of the sine: -1 turns back
  const T* x;
  T* y;
  const float* table;
};

template <class T, int width>
__global__ void __launch_bounds__(most_rotary_threads) rotary_kernel(RotaryRows<T> p) {
  const Index row = blockIdx.x;
  const int half = p.head_dim / 2, chunks = half / width;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const float* cosine = p.table + row % p.sequence * p.head_dim;
  const float* sine = cosine + half;
  const T* x = p.x + row * p.row_stride;
  T* y = p.y + row * p.row_stride;
  for (int i = thread; i < p.heads * chunks; i += threads) {
    const int head = i / chunks, pair = (i - head * chunks) * width;
    const int at = head * p.head_dim + pair;
    const Chunk<float, width> c = load<width>(cosine + pair), s = load<width>(sine + pair);
    Chunk<float, width> a = load_floats<width>(x + at), b = load_floats<width>(x + at + half);
    for (int k = 0; k < width; ++k) {
      const float first = a.values[k], second = b.values[k], turn = s.values[k] * p.sign;
      a.values[k] = first * c.values[k] - second * turn;
      b.values[k] = second * c.values[k] + first * turn;
    }
    store_floats(y + at, a);
    store_floats(y + at + half, b);
  }
  if (x == y) return;
  for (int i = p.heads * p.head_dim + thread * width; i < p.row_stride; i += threads * width)
    store(y + i, load<width>(x + i));
}

/// In fp64, since positions are large and the table is made once.
__global__ void __launch_bounds__(elementwise_threads)
    fill_table_kernel(float* table, Index sequence, Index half, double theta) {
  for (Index i = global_thread(); i < sequence * half; i += global_threads()) {
    const Index position = i / half, j = i % half;
    const double angle = static_cast<double>(position) *
                         pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(2 * half));
    table[position * 2 * half + j] = static_cast<float>(cos(angle));
    table[position * 2 * half + half + j] = static_cast<float>(sin(angle));
  }
}

}  // namespace gpu

namespace {

template <class T, int width>
void launch(Stream& stream, const Rotary& p) {
  const gpu::RotaryRows<T> rows{p.sequence,
                                static_cast<int>(p.heads),
                                static_cast<int>(p.head_dim),
                                static_cast<int>(p.row_stride),
                                p.direction == Rotary::Direction::forward ? 1.0f : -1.0f,
                                static_cast<const T*>(p.x),
                                static_cast<T*>(p.y),
                                p.table};
  // Whole warps that do the same number of items each, as far as it goes.
  const Index items = std::max<Index>(1, p.heads * p.head_dim / 2 / width);
  const Index turns = (items + gpu::most_rotary_threads - 1) / gpu::most_rotary_threads;
  const Index items_of_lanes = turns * gpu::warp_size;
  const auto threads =
      static_cast<unsigned>((items + items_of_lanes - 1) / items_of_lanes * gpu::warp_size);
  check(gpu_launch(gpu::rotary_kernel<T, width>, dim3(static_cast<unsigned>(p.rows)), dim3(threads),
                   0, queue_of(stream), rows),
        "rotary embedding");
}

void run(Stream& stream, const Rotary& p) {
  check_rotary(p);
  if (p.rows == 0) return;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    constexpr int pack = gpu::Pack<T>::size;
    const bool aligned = p.head_dim / 2 % pack == 0 && p.row_stride % pack == 0 &&
                         gpu::aligned16(p.x) && gpu::aligned16(p.y) && gpu::aligned16(p.table);
    aligned ? launch<T, pack>(stream, p) : launch<T, 1>(stream, p);
  });
}

void fill_table(Stream& stream, float* table, Index sequence, Index head_dim, float theta) {
  require(head_dim >= 2 && head_dim % 2 == 0, "rotary embedding turns pairs: head_dim ", head_dim,
          " is odd");
  const Index half = head_dim / 2;
  if (sequence == 0) return;
  check(
      gpu_launch(gpu::fill_table_kernel, dim3(gpu::blocks_for(stream, sequence * half)),
                 dim3(gpu::elementwise_threads), 0, queue_of(stream), table, sequence, half, theta),
      "rotary table");
}

}  // namespace

const RotaryKernels cuda_rotary_kernels = {run, fill_table};

}  // namespace trireme
