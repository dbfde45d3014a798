// Rotary embeddings on a GPU agree with those on the CPU.
#include "trireme/kernels/rotary.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

struct Heads {
  Index sequence, heads, head_dim, row_stride;
};
// Odd halves, columns that are left alone, more items than threads.
const std::vector<Heads> head_shapes = {{1, 1, 2, 2},   {3, 2, 6, 17},  {5, 2, 8, 24},
                                        {5, 2, 16, 40}, {4, 3, 16, 49}, {2, 20, 64, 1400},
                                        {2, 0, 8, 8}};

void run_rotary(Bench& b, const Heads& s, Rotary::Direction direction, DType dtype, Index shift) {
  const Index rows = 2 * s.sequence, count = rows * s.row_stride;
  Rotary p{};
  p.direction = direction;
  p.rows = rows;
  p.sequence = s.sequence;
  p.heads = s.heads;
  p.head_dim = s.head_dim;
  p.row_stride = s.row_stride;
  p.table = b.put(random_floats(s.sequence * s.head_dim, "table"));
  p.dtype = dtype;
  void* x = b.put(random_floats(count, "x"), dtype, shift);
  p.x = x;
  p.y = b.put(random_floats(count, "y"), dtype);
  b.kernels().rotary.run(b.stream(), p);
  p.y = x;
  b.kernels().rotary.run(b.stream(), p);
}

TEST(CudaRotary, TurnsBothWaysInPlaceAndNot) {
  for (const DType dtype : storage_types)
    for (const Index shift : {0, 1})
      expect_agree(
          [&](Bench& b) {
            for (const Heads& s : head_shapes)
              for (const auto direction : {Rotary::Direction::forward, Rotary::Direction::backward})
                run_rotary(b, s, direction, dtype, shift);
          },
          2e-7);
}

TEST(CudaRotary, WhatCannotBeIsRefused) {
  Bench b(open_gpu());
  const auto refused = [&](Index rows, Index heads, Index head_dim) {
    Rotary p{};
    p.rows = rows;
    p.sequence = 4;
    p.heads = heads;
    p.head_dim = head_dim;
    p.row_stride = 16;
    EXPECT_THROW(b.kernels().rotary.run(b.stream(), p), Error);
  };
  refused(8, 2, 7);
  refused(9, 2, 8);
  refused(8, 3, 8);
}

}  // namespace
}  // namespace trireme::test
