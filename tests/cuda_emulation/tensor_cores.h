// What ldmatrix and mma do, for a whole warp at once. The layouts are those of the tables of the
// PTX ISA ("Matrix fragments for mma.m16n8k16 with floating point type", "ldmatrix"), element by
// element, and were not taken from the kernels.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "tests/cuda_emulation/grid.h"

namespace trireme::emulation {

/// Element i of the bf16 pairs in `registers`; the first of a pair in the lower half.
inline float bf16_element(const std::uint32_t* registers, int i) {
  const std::uint32_t pair = registers[i / 2];
  const std::uint32_t bits = i % 2 == 0 ? pair << 16 : pair & 0xffff0000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// One lane's part of d += a b.
struct MmaFragments {
  float* d;                // 4
  const std::uint32_t* a;  // 4 pairs
  std::uint32_t b[2];      // pairs
};

inline void mma_of_warp(const Grid::Lanes& lanes) {
  using Row = float __attribute__((vector_size(32)));  // 8 columns
  std::array<std::array<float, 16>, 16> a{};
  std::array<Row, 16> b{};
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const auto& own = *static_cast<const MmaFragments*>(lanes[static_cast<std::size_t>(lane)]);
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
      const int column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
      a[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = bf16_element(own.a, i);
    }
    for (int i = 0; i < 4; ++i) {
      const int row = in_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
      b[static_cast<std::size_t>(row)][group] = bf16_element(own.b, i);
    }
  }
  std::array<Row, 16> sums{};
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t k = 0; k < 16; ++k) sums[row] += a[row][k] * b[k];
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const auto& own = *static_cast<const MmaFragments*>(lanes[static_cast<std::size_t>(lane)]);
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? group : group + 8, column = in_group * 2 + (i & 1);
      own.d[i] += sums[static_cast<std::size_t>(row)][column];
    }
  }
}

/// One lane's part of loading four 8 x 8 matrices of 16-bit elements: lane 8 m + r names row r of
/// matrix m.
struct LoadMatrices {
  std::uint32_t* registers;  // 4, one a matrix
  const void* row;           // 16 bytes
  bool transposed;
};

inline void load_matrices_of_warp(const Grid::Lanes& lanes) {
  using Matrix = std::array<std::array<std::uint16_t, 8>, 8>;
  std::array<Matrix, 4> matrices;
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    const auto& own = *static_cast<const LoadMatrices*>(lanes[lane]);
    std::memcpy(matrices[lane / 8][lane % 8].data(), own.row, 16);
  }
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    const auto& own = *static_cast<const LoadMatrices*>(lanes[lane]);
    const std::size_t along = lane / 4, first = lane % 4 * 2;
    for (std::size_t m = 0; m < 4; ++m) {
      const Matrix& x = matrices[m];
      const std::uint32_t low = own.transposed ? x[first][along] : x[along][first];
      const std::uint32_t high = own.transposed ? x[first + 1][along] : x[along][first + 1];
      own.registers[m] = low | high << 16;
    }
  }
}

}  // namespace trireme::emulation
