// Copies and sums between f32 and bf16 on a GPU, against the CPU: the same bits.
#include "trireme/kernels/elementwise.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

std::vector<Bf16> random_bf16(Index count, const char* name) {
  std::vector<Bf16> values;
  for (const float x : random_floats(count, name)) values.push_back(to_bf16(x));
  return values;
}

void conversions_agree(Shape shape, Shape to_strides, Shape from_strides, Index span, Index shift) {
  for (const DType to_type : {DType::f32, DType::bf16})
    for (const DType from_type : {DType::f32, DType::bf16})
      for (const Write write : {Write::assign, Write::add})
        expect_agree(
            [&](Bench& b) {
              const auto put = [&](DType dtype, const char* name) -> void* {
                if (dtype == DType::bf16) return b.put(random_bf16(span, name), shift);
                return b.put(random_floats(span, name), shift);
              };
              Tensor from(put(from_type, "from"), shape, from_type);
              Tensor to(put(to_type, "to"), shape, to_type);
              from.strides = from_strides;
              to.strides = to_strides;
              b.kernels().elementwise.copy_strided(b.stream(), to, from, write);
            },
            0, {.units = 0, .share = 0});
}

TEST(CudaElementwise, ConversionsBetweenAnyStridesAgree) {
  conversions_agree({}, {}, {}, 1, 0);
  for (const Index shift : {0, 1, 3}) conversions_agree({1237}, {1}, {1}, 1237, shift);
  for (const Index shift :
       {0, 1})  // whole chunks of 16 bytes, and not: what lies between the rows stays
    for (const Index columns : {61, 64})
      conversions_agree({5, columns}, {72, 1}, {80, 1}, 400, shift);
  conversions_agree({7}, {3}, {2}, 30, 0);
  conversions_agree({5, 7}, {7, 1}, {1, 5}, 35, 1);
  conversions_agree({5, 300}, {300, 1}, {301, 1}, 1600, 0);
  conversions_agree({3, 1, 4, 5}, {20, 20, 5, 1}, {40, 7, 10, 2}, 200, 0);
}

TEST(CudaElementwise, WhatIsNotFiniteInBf16IsFound) {
  in_every_order([] {
    Bench b(open_gpu());
    std::vector<Bf16> values(1000, to_bf16(3e38f));
    EXPECT_TRUE(b.stream().wait_and_check_finite(Tensor(b.put(values), {10, 100}, DType::bf16)));
    values[777] = to_bf16(std::nanf(""));
    EXPECT_FALSE(b.stream().wait_and_check_finite(Tensor(b.put(values), {10, 100}, DType::bf16)));
  });
}

}  // namespace
}  // namespace trireme::test
