// What the kernels of GPUs (kernels/cuda) and the sizes of their workspaces both depend on.
#pragma once

#include <algorithm>
#include <type_traits>

#include "trireme/core/dtype.h"

namespace trireme::kernels {

/// What cuBLAS recommends for Hopper. Every stream has its own: products on two streams may run at
/// once.
inline constexpr Index blas_workspace_bytes = Index{32} << 20;

namespace gpu {

inline constexpr int warp_size = 32;

// Attention by simt: a block of 16 x 16 threads works on 64 rows.
inline constexpr int attention_side = 16;                              // threads
inline constexpr int attention_own = 4;                                // rows of a thread
inline constexpr int attention_rows = attention_side * attention_own;  // rows of a block

/// f(std::integral_constant<int, width>) with the least width of 32, 64, 96, 128 that holds heads.
template <class F>
void for_head_width(Index head_dim, F f) {
  if (head_dim <= 32) return f(std::integral_constant<int, 32>());
  if (head_dim <= 64) return f(std::integral_constant<int, 64>());
  if (head_dim <= 96) return f(std::integral_constant<int, 96>());
  f(std::integral_constant<int, 128>());
}

/// Floats from one row to the next: rows that 8 neighbours read at once, 16 bytes each, lie in
/// different banks.
constexpr int attention_stride(int columns) { return columns + 4; }

/// Streamed rows, by 16: 4 for narrow heads; 2 for wide ones, so that two blocks fit a
/// multiprocessor.
template <int width>
inline constexpr int backward_columns = width <= 64 ? 4 : 2;
template <int width>
inline constexpr int backward_streamed = backward_columns<width>* attention_side;

/// In shared memory: two matrices of 64 rows, two of streamed rows, 64 rows of weights, and two
/// numbers for each streamed row.
template <int width>
constexpr int backward_shared_floats() {
  return 2 * (attention_rows + backward_streamed<width>)*attention_stride(width) +
         attention_rows * attention_stride(backward_streamed<width>) + 2 * backward_streamed<width>;
}

// Norms.
inline constexpr int most_norm_threads = 512;

/// Row elements each thread keeps in registers: 16, or 4 when loads are scalar.
template <int width>
inline constexpr int backward_elements = width == 1 ? 4 : 16;

/// Threads of a row of `items`, of which each keeps up to `kept`: whole warps.
inline Index threads_of_row(Index items, Index kept) {
  const Index warps = (items + kept * warp_size - 1) / (kept * warp_size);
  return std::min<Index>(warps * warp_size, most_norm_threads);
}

/// Threads of a row, and rows at once, of a block of the backward kernel.
struct NormGroups {
  Index threads, rows;
};
inline NormGroups norm_groups(Index channels, Index kept) {
  constexpr Index threads_of_block = 256;
  const Index threads = threads_of_row(channels, kept);
  return {threads, std::max<Index>(1, threads_of_block / threads)};
}

/// Blocks of the backward kernel: as many as the device runs at once, four rows for each group at
/// least. The same for all types and alignments.
inline Index norm_slabs(int multiprocessors, Index rows, Index channels) {
  constexpr Index resident_threads = 512, least_rows = 4;
  const NormGroups groups = norm_groups(channels, backward_elements<4>);
  const Index blocks = std::max<Index>(1, resident_threads / (groups.threads * groups.rows));
  return std::clamp<Index>(rows / (least_rows * groups.rows), 1, multiprocessors * blocks);
}

}  // namespace gpu
}  // namespace trireme::kernels
