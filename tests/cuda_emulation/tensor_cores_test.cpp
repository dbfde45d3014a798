// The twins of tensor cores and of asynchronous copies, alone: who holds what is written here from
// the tables of the PTX ISA.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cuda_emulation/device_code.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme::emulation {
namespace {

/// Small whole numbers are exact in bf16, and so are sums of their products in fp32.
std::uint16_t bf16_bits(int value) {
  const auto x = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

struct Place {
  int row, column;
};

/// Which element of a (16 x 16) lane and index name: rows a0 a1 | a2 a3 | a4 a5 | a6 a7 of the
/// figure.
constexpr Place a_place(int lane, int i) {
  constexpr int down[] = {0, 0, 8, 8, 0, 0, 8, 8}, right[] = {0, 1, 0, 1, 8, 9, 8, 9};
  return {lane / 4 + down[i], lane % 4 * 2 + right[i]};
}
/// Of b (16 x 8).
constexpr Place b_place(int lane, int i) {
  constexpr int down[] = {0, 1, 8, 9};
  return {lane % 4 * 2 + down[i], lane / 4};
}
/// Of d (16 x 8).
constexpr Place d_place(int lane, int i) {
  constexpr int down[] = {0, 0, 8, 8}, right[] = {0, 1, 0, 1};
  return {lane / 4 + down[i], lane % 4 * 2 + right[i]};
}
// Corners of the figures of mma.m16n8k16.
static_assert(a_place(0, 7).row == 8 && a_place(0, 7).column == 9);
static_assert(a_place(31, 0).row == 7 && a_place(31, 7).column == 15);
static_assert(b_place(3, 3).row == 15 && b_place(28, 0).column == 7);
static_assert(d_place(31, 3).row == 15 && d_place(31, 3).column == 7);

int a_value(Place at) { return (at.row * 5 + at.column * 3) % 17 - 8; }
int b_value(Place at) { return (at.row * 7 + at.column * 2) % 13 - 6; }

/// Every block of 32 threads multiplies and leaves d.
void multiply(float* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t a[4] = {}, b[2] = {};
  for (int i = 0; i < 8; ++i)
    a[i / 2] |= static_cast<std::uint32_t>(bf16_bits(a_value(a_place(lane, i)))) << i % 2 * 16;
  for (int i = 0; i < 4; ++i)
    b[i / 2] |= static_cast<std::uint32_t>(bf16_bits(b_value(b_place(lane, i)))) << i % 2 * 16;
  float d[4] = {1, 2, 3, 4};  // is added to
  gpu_mma(d, a, b[0], b[1]);
  for (int i = 0; i < 4; ++i)
    out[static_cast<int>(threadIdx.x) / 32 * 128 + d_place(lane, i).row * 8 +
        d_place(lane, i).column] = d[i] - static_cast<float>(i + 1);
}

template <class F>
void tiles_in_every_order(const F& f) {
  for (const GridOptions& options :
       {GridOptions{Order::forward, 1}, GridOptions{Order::reverse, 1},
        GridOptions{Order::random, 1}, GridOptions{Order::random, 2}}) {
    Grid::instance().options = options;
    f();
  }
  Grid::instance().options = {};
}

TEST(TensorCores, MultiplyAsAPlainProductDoes) {
  tiles_in_every_order([] {
    std::vector<float> got(256);
    gpu_launch(multiply, dim3(1), dim3(64), 0, nullptr, got.data());
    cudaStreamSynchronize(nullptr);
    for (int warp = 0; warp < 2; ++warp)
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
          int sum = 0;
          for (int k = 0; k < 16; ++k) sum += a_value({row, k}) * b_value({k, column});
          EXPECT_EQ(got[static_cast<std::size_t>(warp * 128 + row * 8 + column)],
                    static_cast<float>(sum))
              << row << ", " << column;
        }
  });
}

/// Element (row, column) of matrix m is 64 m + 8 row + column, with a gap between rows.
void load_matrices(std::uint32_t* plain, std::uint32_t* transposed) {
  GPU_DYNAMIC_SHARED(std::uint16_t, shared);
  const int lane = static_cast<int>(threadIdx.x);
  std::uint16_t* row = shared + lane * 16;
  for (int i = 0; i < 8; ++i) row[i] = static_cast<std::uint16_t>(lane * 8 + i);
  __syncwarp();
  std::uint32_t registers[4];
  gpu_load_matrices(registers, row);
  for (int m = 0; m < 4; ++m) plain[lane * 4 + m] = registers[m];
  gpu_load_matrices_transposed(registers, row);
  for (int m = 0; m < 4; ++m) transposed[lane * 4 + m] = registers[m];
}

TEST(TensorCores, LoadMatricesGivesEachLaneItsPair) {
  tiles_in_every_order([] {
    std::vector<std::uint32_t> plain(128), transposed(128);
    gpu_launch(load_matrices, dim3(1), dim3(32), 32 * 32, nullptr, plain.data(), transposed.data());
    cudaStreamSynchronize(nullptr);
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned m = 0; m < 4; ++m) {
        const unsigned t = lane % 4 * 2, group = lane / 4, first = 64 * m;
        EXPECT_EQ(plain[lane * 4 + m], (first + 8 * group + t) | (first + 8 * group + t + 1) << 16);
        EXPECT_EQ(transposed[lane * 4 + m], (first + 8 * t + group) | (first + 8 * (t + 1) + group)
                                                                          << 16);
      }
  });
}

enum class Wait { enough, too_little };

/// Two copies in two groups; reads the first before or after it may.
void copy(float* out, const float* in, Wait wait) {
  GPU_DYNAMIC_SHARED(float, shared);
  for (int i = 0; i < 2; ++i) {
    gpu_copy_async<16>(shared + 4 * i, in + 4 * i, i == 0);
    gpu_copy_commit();
  }
  if (wait == Wait::enough) gpu_copy_wait<1>();
  for (int i = 0; i < 8; ++i) out[i] = shared[i];
  gpu_copy_wait<0>();
  for (int i = 8; i < 16; ++i) out[i] = shared[i - 8];
}

TEST(AsyncCopies, AreThereOnceTheyAreWaitedFor) {
  alignas(16) const float in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> out(16);
  gpu_launch(copy, dim3(1), dim3(1), 32, nullptr, out.data(), +in, Wait::enough);
  cudaStreamSynchronize(nullptr);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(out[i], in[i]);
    EXPECT_TRUE(std::isnan(out[4 + i])) << "the second group is under way";
    EXPECT_EQ(out[8 + i], in[i]);
    EXPECT_EQ(out[12 + i], 0.0f) << "nothing was present";
  }
  gpu_launch(copy, dim3(1), dim3(1), 32, nullptr, out.data(), +in, Wait::too_little);
  cudaStreamSynchronize(nullptr);
  EXPECT_TRUE(std::isnan(out[0]));
}

void forget_to_wait(const float* in) {
  GPU_DYNAMIC_SHARED(float, shared);
  gpu_copy_async<16>(shared, in, true);
  gpu_copy_commit();
}
void copy_to_an_odd_place(const float* in) {
  GPU_DYNAMIC_SHARED(float, shared);
  gpu_copy_async<16>(shared + 1, in, true);
}
void multiply_beside_a_vote(float* out) {
  if (threadIdx.x < 16)
    multiply(out);
  else
    __ballot_sync(~0u, 1);
}

TEST(AsyncCopiesDeathTest, WhatNoGpuWouldDoEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  alignas(16) const float in[4] = {};
  std::vector<float> out(128);
  EXPECT_DEATH(gpu_launch(forget_to_wait, dim3(1), dim3(1), 16, nullptr, +in), "waited");
  EXPECT_DEATH(gpu_launch(copy_to_an_odd_place, dim3(1), dim3(1), 32, nullptr, +in), "multiple");
  EXPECT_DEATH(gpu_launch(multiply_beside_a_vote, dim3(1), dim3(32), 0, nullptr, out.data()),
               "another operation");
}

}  // namespace
}  // namespace trireme::emulation
