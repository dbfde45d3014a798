#include <numeric>

#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

// Less than a pack, odd, several blocks; and arrays that are not aligned to 16 bytes.
const std::vector<Index> counts = {0, 1, 3, 4, 31, 1027, 5000};
const std::vector<Index> shifts = {0, 1};

TEST(CudaElementwise, AddAccumulateAndScaleAreExact) {
  for (const Index count : counts)
    for (const Index shift : shifts)
      expect_twins(
          [&](Bench& b) {
            const ElementwiseKernels& k = b.kernels().elementwise;
            float* x = b.put(random_floats(count, "a"), shift);
            float* y = b.put(random_floats(count, "b"));
            float* sum = b.put(Floats(static_cast<std::size_t>(count)), shift);
            k.add(b.stream(), x, y, sum, count);
            k.accumulate(b.stream(), y, x, count);
            k.scale(b.stream(), x, 0.3f, count);
          },
          0);
}

TEST(CudaElementwise, BiasAndItsGradientAgree) {
  for (const auto& [rows, channels] :
       {std::pair<Index, Index>{1, 1}, {31, 33}, {33, 32}, {70, 64}, {65, 36}})
    for (const Index shift : shifts)
      expect_twins(
          [&, n = rows, c = channels](Bench& b) {
            const float* x = b.put(random_floats(n * c, "x"), shift);
            float* bias = b.put(random_floats(c, "bias"));
            float* y = b.put(Floats(static_cast<std::size_t>(n * c)));
            b.kernels().elementwise.bias_add(b.stream(), {n, c, x, bias, y});
            b.kernels().elementwise.bias_backward(b.stream(), {n, c, x, bias});
          },
          1e-6);
}

TEST(CudaElementwise, DropoutDropsTheSameElements) {
  for (const Write write : {Write::assign, Write::add})
    for (const Index first : {0, 4, 5})
      expect_twins(
          [&](Bench& b) {
            const float* x = b.put(random_floats(1027, "x"));
            float* y = b.put(random_floats(1027, "y"));
            b.kernels().elementwise.dropout(b.stream(),
                                            {1027, first, 0.3f, random_for(5, "d"), x, y, write});
          },
          0);
}

TEST(CudaElementwise, SquaredErrorAndItsGradientAgree) {
  for (const Index count : {1, 1000, 5001})
    for (const Write write : {Write::assign, Write::add})
      expect_twins(
          [&](Bench& b) {
            const float* x = b.put(random_floats(count, "x"));
            const float* target = b.put(random_floats(count, "t"));
            double* loss = b.put(std::vector<double>{7});
            const double* scale = b.put(std::vector<double>{0.25});
            float* dx = b.put(random_floats(count, "dx"));
            b.kernels().elementwise.squared_error_forward(b.stream(), {count, x, target, loss});
            b.kernels().elementwise.squared_error_backward(b.stream(),
                                                           {count, x, target, scale, dx, write});
          },
          1e-7);
}

void copies_agree(Shape shape, Shape to_strides, Shape from_strides, Index span) {
  for (const Write write : {Write::assign, Write::add})
    expect_twins(
        [&](Bench& b) {
          Tensor from(b.put(random_floats(span, "from")), shape);
          Tensor to(b.put(random_floats(span, "to")), shape);
          from.strides = from_strides;
          to.strides = to_strides;
          b.kernels().elementwise.copy_strided(b.stream(), to, from, write);
        },
        0);
}

TEST(CudaElementwise, CopiesBetweenAnyStridesAgree) {
  copies_agree({}, {}, {}, 1);
  copies_agree({7}, {3}, {2}, 30);
  copies_agree({5, 7}, {7, 1}, {1, 5}, 35);
  copies_agree({5, 300}, {300, 1}, {301, 1}, 1600);
  copies_agree({3, 1, 4, 5}, {20, 20, 5, 1}, {40, 7, 10, 2}, 200);
  copies_agree({2, 3, 4, 5, 2, 3}, {360, 120, 30, 6, 3, 1}, {1, 2, 6, 24, 120, 240}, 720);
}

TEST(CudaElementwise, WhatIsNotFiniteIsFound) {
  in_every_order([] {
    Bench b(open_gpu());
    Floats values(1000, 1.0f);
    EXPECT_TRUE(b.stream().wait_and_check_finite(Tensor(b.put(values), {10, 100})));
    values[777] = std::nanf("");
    EXPECT_FALSE(b.stream().wait_and_check_finite(Tensor(b.put(values), {10, 100})));
    values[777] = -HUGE_VALF;
    EXPECT_FALSE(b.stream().wait_and_check_finite(Tensor(b.put(values), {10, 100})));
  });
}

}  // namespace
}  // namespace trireme::test
