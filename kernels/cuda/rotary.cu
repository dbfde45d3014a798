// Rotary position embedding. A block rotates a row; the table is small and stays in the caches.
#include <algorithm>

#include "kernels/cuda/gpu.cuh"
#include "kernels/rotary.h"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

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
  const int half = p.head_dim / 2, vecs = half / width;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const float* cosine = p.table + row % p.sequence * p.head_dim;
  const float* sine = cosine + half;
  const T* x = p.x + row * p.row_stride;
  T* y = p.y + row * p.row_stride;
  for (int i = thread; i < p.heads * vecs; i += threads) {
    const int head = i / vecs, pair = (i - head * vecs) * width;
    const int at = head * p.head_dim + pair;
    const Vec<float, width> c = load<width>(cosine + pair), s = load<width>(sine + pair);
    Vec<float, width> a = load_floats<width>(x + at), b = load_floats<width>(x + at + half);
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

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

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
                   0, cuda_stream_of(stream), rows),
        "rotary embedding");
}

void run(Stream& stream, const Rotary& p) {
  check_rotary(p);
  if (p.rows == 0) return;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    constexpr int pack = gpu::Pack<T>::size;
    const bool aligned = p.head_dim / 2 % pack == 0 && p.row_stride % pack == 0 &&
                         gpu::all_aligned(p.x, p.y, p.table);
    aligned ? launch<T, pack>(stream, p) : launch<T, 1>(stream, p);
  });
}

}  // namespace

const RotaryKernels& cuda_table(const RotaryKernels*) {
  static constexpr RotaryKernels kernels = {run};
  return kernels;
}

}  // namespace trireme::kernels
