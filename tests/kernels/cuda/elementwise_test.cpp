// Sums, biases, dropout, errors and copies on a GPU agree with those on the CPU.
#include "trireme/kernels/elementwise.h"

#include <numeric>

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

// Less than a pack, odd, several blocks; and arrays that are not aligned to 16 bytes.

TEST(CudaElementwise, SumsAreExact) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          for (const Index count : counts)
            for (const Index shift : shifts) {
              const ElementwiseKernels& k = b.kernels().elementwise;
              void* x = b.put(random_floats(count, "a"), dtype, shift);
              void* y = b.put(random_floats(count, "b"), dtype);
              void* sum = b.put(Floats(static_cast<std::size_t>(count)), dtype, shift);
              k.add(b.stream(), {count, x, y, sum, dtype});
              k.add(b.stream(), {count, y, x, y, dtype});
            }
        },
        0, exactly);
}

TEST(CudaElementwise, BiasAndItsGradientAgree) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          for (const auto& [rows, channels] :
               {std::pair<Index, Index>{1, 1}, {31, 33}, {33, 32}, {70, 64}, {165, 36}})
            for (const Index shift : shifts) {
              const Index n = rows, c = channels;
              const void* x = b.put(random_floats(n * c, "x"), dtype, shift);
              const void* bias = b.put(random_floats(c, "bias"), dtype);
              void* y = b.put(Floats(static_cast<std::size_t>(n * c)), dtype);
              float* dbias = b.put(random_floats(c, "dbias"));
              b.kernels().elementwise.bias_add(b.stream(), {n, c, x, bias, y, dtype});
              b.kernels().elementwise.bias_backward(b.stream(), {n, c, x, dbias, dtype});
            }
        },
        1e-6, exactly);
}

TEST(CudaElementwise, DropoutDropsTheSameElements) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          const StepRandom random{random_key(5, "d"), put_scalars(b, {.step = 3})};
          for (const Write write : {Write::assign, Write::add})
            for (const Index first : {0, 4, 5})
              for (const Index shift : shifts) {
                const void* x = b.put(random_floats(1027, "x"), dtype, shift);
                void* y = b.put(random_floats(1027, "y"), dtype);
                b.kernels().elementwise.dropout(b.stream(),
                                                {1027, first, 0.3f, random, x, y, write, dtype});
              }
        },
        0, exactly);
}

TEST(CudaElementwise, SquaredErrorAndItsGradientAgree) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          for (const Index count : {0, 1, 1000, 5001, 20003})
            for (const Index shift : shifts)
              for (const Write write : {Write::assign, Write::add}) {
                const void* x = b.put(random_floats(count, "x"), dtype, shift);
                const void* target = b.put(random_floats(count, "t"), dtype);
                double* loss = b.put(std::vector<double>{7});
                const double* scale = b.put(std::vector<double>{0.25});
                void* dx = b.put(random_floats(count, "dx"), dtype);
                const ElementwiseKernels& k = b.kernels().elementwise;
                k.squared_error_forward(b.stream(), {count, x, target, loss, dtype});
                k.squared_error_backward(b.stream(), {count, x, target, scale, dx, write, dtype});
              }
        },
        1e-11);
}

void copies_agree(Shape shape, Shape to_strides, Shape from_strides, Index span) {
  for (const Write write : {Write::assign, Write::add})
    expect_agree(
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

/// Rows of 96 elements in wider ones: whole chunks of 16 bytes, or not, when shifted.
template <class T>
void chunks_agree(Bench& b) {
  for (const Index shift : {0, 1})
    for (const Index stride : {128, 129}) {
      std::vector<T> from, to(700, T{7});
      for (int i = 0; i < 700; ++i) from.push_back(static_cast<T>(i % 100));
      Tensor x(b.put(from, shift), {5, 96}, DTypeOf<T>::value);
      Tensor y(b.put(to), {5, 96}, DTypeOf<T>::value);
      x.strides = {stride, 1};
      y.strides = {112, 1};
      b.kernels().elementwise.copy_strided(b.stream(), y, x, Write::assign);
      if (is_floating(x.dtype)) b.kernels().elementwise.copy_strided(b.stream(), y, x, Write::add);
    }
}

TEST(CudaElementwise, RowsInWholeChunksAreCopiedAndAddedExactly) {
  expect_agree(
      [](Bench& b) {
        chunks_agree<float>(b);
        chunks_agree<double>(b);
        chunks_agree<std::uint8_t>(b);
        chunks_agree<std::int32_t>(b);
        chunks_agree<std::int64_t>(b);
      },
      0);
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
