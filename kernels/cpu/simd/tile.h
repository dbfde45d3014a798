// The register tile that attention multiplies with, and the packing of its operands.
// A tile's sums run over k one after the other, so they are equal bit for bit on every instruction
// set with FMA.
#pragma once

#include "trireme/kernels/write.h"

#include "kernels/cpu/simd/for_each_vector.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

// A tile fills the registers with sums: 24 of 32 with AVX-512, 12 of 16 otherwise.
constexpr Index tile_rows = register_bytes == 64 ? 12 : 6;
constexpr Index tile_columns = 2 * register_lanes;

constexpr Index round_up(Index n, Index to) { return (n + to - 1) / to * to; }

/// How the left operand lies: a(r, i) is a[r * stride + i], or a[r + i * stride].
enum class Left { rows, columns };

/// c(tile_rows, tile_columns) = or += a(tile_rows, k) b(k, tile_columns). Strides in elements.
template <Write write, Left left>
[[gnu::noinline]] void multiply_tile(Index k, const float* a, Index a_stride, const float* b,
                                     Index b_stride, float* c, Index c_stride) {
  using R = Lanes<FloatRegister>;
  FloatRegister sums[tile_rows][2];
#pragma GCC unroll 16
  for (Index r = 0; r < tile_rows; ++r) {
    sums[r][0] = write == Write::add ? R::load(c + r * c_stride) : R::fill(0);
    sums[r][1] = write == Write::add ? R::load(c + r * c_stride + register_lanes) : R::fill(0);
  }
  const Index row = left == Left::rows ? a_stride : 1;
  for (Index i = 0; i < k; ++i) {
    const FloatRegister b0 = R::load(b), b1 = R::load(b + register_lanes);
#pragma GCC unroll 16
    for (Index r = 0; r < tile_rows; ++r) {
      const FloatRegister x = R::fill(a[r * row]);
      sums[r][0] = fma(x, b0, sums[r][0]);
      sums[r][1] = fma(x, b1, sums[r][1]);
    }
    a += left == Left::rows ? 1 : a_stride;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (Index r = 0; r < tile_rows; ++r) {
    R::store(c + r * c_stride, sums[r][0]);
    R::store(c + r * c_stride + register_lanes, sums[r][1]);
  }
}

enum class Use { read, write };
/// Prefetches a row that will be needed soon: the strides of packed heads defeat the hardware
/// prefetcher.
template <Use use = Use::read>
TRIREME_INLINE void prefetch(const float* x, Index columns) {
  for (Index i = 0; i < columns; i += 16) __builtin_prefetch(x + i, use == Use::write, 3);
}
constexpr Index rows_ahead = 8;

/// to(count, stride) = factor * from(count, columns); zeros in further columns up to `padded` and
/// in rows up to `padded_count`.
TRIREME_INLINE void pack_rows(const float* from, Index from_stride, Index count, Index columns,
                              float factor, float* to, Index stride, Index padded,
                              Index padded_count) {
  for (Index r = 0; r < padded_count; ++r) {
    float* y = to + r * stride;
    if (r < count) {
      const float* x = from + r * from_stride;
      if (r + rows_ahead < count) prefetch(x + rows_ahead * from_stride, columns);
      for_each_vector(0, columns, [=](auto at) { at.store(y, at.load(x) * all(factor)); });
      for_each_vector(columns, padded, [=](auto at) { at.store(y, all(0)); });
    } else {
      for_each_vector(0, padded, [=](auto at) { at.store(y, all(0)); });
    }
  }
}

typedef float Four __attribute__((vector_size(16)));
typedef float UnalignedFour __attribute__((vector_size(16), aligned(4), may_alias));

/// The transpose of from(count, columns) in panels of tile_columns rows: element (r, j) goes to
/// to[(r / tile_columns) * columns * tile_columns + j * tile_columns + r % tile_columns]. The
/// content of a panel for rows past `count` does not matter: products with it are beyond the
/// diagonal.
TRIREME_INLINE void pack_transposed(const float* from, Index from_stride, Index count,
                                    Index columns, float* to) {
  for (Index first = 0; first < count; first += 4) {
    const Index rows = count - first < 4 ? count - first : 4;
    const float* x = from + first * from_stride;
    float* y = to + first / tile_columns * columns * tile_columns + first % tile_columns;
    for (Index r = 0; r < 4 && first + r + rows_ahead < count; ++r)
      prefetch(x + (r + rows_ahead) * from_stride, columns);
    Index j = 0;
    if (rows == 4)
      for (; j + 4 <= columns; j += 4) {
        const auto row = [=](Index r) -> Four {
          return *reinterpret_cast<const UnalignedFour*>(x + r * from_stride + j);
        };
        const Four a = row(0), b = row(1), c = row(2), d = row(3);
        const Four ab = shuffle<0, 4, 1, 5>(a, b), cd = shuffle<0, 4, 1, 5>(c, d);
        const Four AB = shuffle<2, 6, 3, 7>(a, b), CD = shuffle<2, 6, 3, 7>(c, d);
        const auto put = [=](Index column, Four v) {
          *reinterpret_cast<UnalignedFour*>(y + (j + column) * tile_columns) = v;
        };
        put(0, shuffle<0, 1, 4, 5>(ab, cd));
        put(1, shuffle<2, 3, 6, 7>(ab, cd));
        put(2, shuffle<0, 1, 4, 5>(AB, CD));
        put(3, shuffle<2, 3, 6, 7>(AB, CD));
      }
    for (; j < columns; ++j)
      for (Index r = 0; r < 4; ++r)
        y[j * tile_columns + r] = r < rows ? x[r * from_stride + j] : 0.0f;
  }
}

}  // namespace
}  // namespace trireme::kernels::TRIREME_SIMD
