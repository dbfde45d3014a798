// Attention on tensor cores: tiles of bf16 in shared memory, and the products of a warp with them.
// A block is 4 warps; a warp owns 16 or 32 rows of results, which no other warp needs: warps
// synchronise only when tiles are loaded or replaced (Dao 2023, arXiv:2307.08691, 3.3).
#pragma once

#include <cstring>

#include "kernels/cuda/attention.cuh"

namespace trireme::kernels::gpu {

inline constexpr int mma_warps = 4, mma_threads = mma_warps * warp_size;
inline constexpr int mma_rows = 16,
                     mma_columns = 8;  // size of the tile that one instruction adds to

/// How a kernel divides its work: each warp owns `own` times 16 rows, and `streamed` rows at a time
/// are streamed past them.
template <int own_tiles, int streamed_rows>
struct MmaTiles {
  static constexpr int own = own_tiles, streamed = streamed_rows;
  static constexpr int warp_rows = own * mma_rows, block_rows = mma_warps * warp_rows;
};

/// Rows of `width` bf16 in shared memory, in pieces of 16 bytes. The pieces of a row are permuted,
/// so that the same piece of 8 rows (ldmatrix) and neighbouring pieces of a row (copies) are all in
/// different banks. Positions are int to save registers.
template <int width>
struct MmaTile {
  static constexpr int pieces = width / 8;
  __nv_bfloat16* data;

  /// Returns where 8 columns begin, from the first of the tile on: the same in all tiles of a
  /// kernel.
  __device__ static __forceinline__ int place(int row, int column) {
    const int turn = pieces % 8 == 0 ? row % 8 : row / 2 % 4;
    return row * width + ((column / 8) ^ turn) * 8;
  }
  /// Goes from the place of one of the first 16 columns to that of the column `columns`, a multiple
  /// of 16, further in that row.
  __device__ static __forceinline__ int further(int place, int columns) {
    constexpr int turned = pieces % 8 == 0 ? 63 : 31;
    return (place ^ (columns & turned)) + (columns & ~turned);
  }
};

__device__ __forceinline__ int mma_thread() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int mma_lane() { return mma_thread() % warp_size; }
__device__ __forceinline__ int mma_warp() { return mma_thread() / warp_size; }

/// Starts to copy `rows` rows from row `first` on; zeros beyond the sequence.
template <int rows, int width>
__device__ __forceinline__ void copy_rows(MmaTile<width> to, HeadRows<const __nv_bfloat16> from,
                                          int first, int sequence) {
  constexpr int pieces = MmaTile<width>::pieces, across = pieces % 8 == 0 ? pieces : 4;
  constexpr int down = mma_threads / across;
  static_assert(rows % down == 0 && down % 8 == 0);  // rows that far apart are turned alike
  const int row = mma_thread() / across, column = mma_thread() % across * 8;
  const int place = to.place(row, column), present = sequence - first - row;
  const __nv_bfloat16* x = from.row(first + row) + column;
#pragma unroll
  for (int r = 0; r < rows; r += down, x += down * from.stride)
#pragma unroll
    for (int c = 0; c < width; c += across * 8)
      gpu_copy_async<16>(to.data + place + r * width + c, x + c, r < present);
}

/// What a lane holds of `own` times 16 rows and `columns` columns: per 16 x 8,
/// columns 2t and 2t + 1 of row lane / 4, and of the row 8 below.
template <int own, int columns>
using MmaSums = float[own][columns / mma_columns][4];

/// sums = rows [first, first + 16 own) of `left` times the transpose of
/// `right`, which has `columns` rows.
template <int own, int columns, int width>
__device__ __forceinline__ void multiply_transposed(MmaTile<width> left, int first,
                                                    MmaTile<width> right,
                                                    MmaSums<own, columns>& sums) {
  using Tile = MmaTile<width>;
  const int lane = mma_lane();
  const int left_place = Tile::place(first + lane % 16, lane / 16 * 8);
  const int right_place = Tile::place(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
#pragma unroll
  for (int m = 0; m < own; ++m)
#pragma unroll
    for (int n = 0; n < columns / mma_columns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0;
#pragma unroll 4  // more would spill
  for (int k = 0; k < width; k += 16) {
    std::uint32_t a[own][4];
#pragma unroll
    for (int m = 0; m < own; ++m)
      gpu_load_matrices(a[m], left.data + Tile::further(left_place, k) + m * mma_rows * width);
#pragma unroll
    for (int n = 0; n < columns / mma_columns; n += 2) {
      std::uint32_t b[4];  // 16 rows of `right` are two times 8 columns
      gpu_load_matrices(b, right.data + Tile::further(right_place, k) + n * mma_columns * width);
#pragma unroll
      for (int m = 0; m < own; ++m) {
        gpu_mma(sums[m][n], a[m], b[0], b[1]);
        gpu_mma(sums[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

__device__ __forceinline__ std::uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// sums += weights, rounded to bf16, times `right`, which has `inner` rows.
/// What mma leaves of two times 8 columns in a lane is what it wants of 16
/// columns of a left operand.
template <int own, int inner, int width>
__device__ __forceinline__ void multiply_weights(const MmaSums<own, inner>& weights,
                                                 MmaTile<width> right, MmaSums<own, width>& sums) {
  using Tile = MmaTile<width>;
  const int place = Tile::place(mma_lane() % 16, mma_lane() / 16 * 8);
#pragma unroll
  for (int k = 0; k < inner / mma_columns; k += 2) {
    std::uint32_t a[own][4];
#pragma unroll
    for (int m = 0; m < own; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&w)[4] = weights[m][k + half];
        a[m][2 * half] = bf16_pair(w[0], w[1]);
        a[m][2 * half + 1] = bf16_pair(w[2], w[3]);
      }
#pragma unroll
    for (int n = 0; n < width / mma_columns; n += 2) {
      std::uint32_t b[4];
      gpu_load_matrices_transposed(
          b, right.data + Tile::further(place, n * mma_columns) + k * mma_columns * width);
#pragma unroll
      for (int m = 0; m < own; ++m) {
        gpu_mma(sums[m][n], a[m], b[0], b[1]);
        gpu_mma(sums[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// f(value, row, column) for every element of `sums` that this lane holds.
template <int own, int columns, class F>
__device__ __forceinline__ void each_sum(MmaSums<own, columns>& sums, F f) {
  const int group = mma_lane() / 4, t = mma_lane() % 4;
#pragma unroll
  for (int m = 0; m < own; ++m)
#pragma unroll
    for (int n = 0; n < columns / mma_columns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        f(sums[m][n][i], m * mma_rows + group + i / 2 * 8, n * mma_columns + 2 * t + i % 2);
}

/// Rows `first` on of `to`: what the warp has, through rows of shared memory
/// that only this warp uses, so that 16 bytes a lane go out at once. Adding
/// rounds twice: the sums, and what is added up.
template <int own, int width>
__device__ __forceinline__ void store_sums(const MmaSums<own, width>& sums, MmaTile<width> through,
                                           int through_row, HeadRows<__nv_bfloat16> to, int first,
                                           int sequence, Write write) {
  constexpr int pieces = MmaTile<width>::pieces;
  const int lane = mma_lane();
#pragma unroll
  for (int m = 0; m < own; ++m)
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&x)[4] = sums[m][n];
        const int row = through_row + m * mma_rows + lane / 4 + half * 8;
        __nv_bfloat16* at = through.data + through.place(row, n * 8) + lane % 4 * 2;
        *reinterpret_cast<std::uint32_t*>(at) = bf16_pair(x[2 * half], x[2 * half + 1]);
      }
  __syncwarp();
#pragma unroll 4
  for (int i = lane; i < own * mma_rows * pieces; i += warp_size) {
    const int row = i / pieces, column = i % pieces * 8;
    if (first + row < sequence)
      write_floats(to.row(first + row) + column,
                   load_floats<8>(through.data + through.place(through_row + row, column)), write);
  }
}

}  // namespace trireme::kernels::gpu
