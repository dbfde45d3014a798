#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

const std::vector<Index> counts = {0, 1, 3, 4, 1027, 5000};
const std::vector<Index> shifts = {0, 1};

void run_adamw(Bench& b, Index count, Index shift) {
  AdamW p{};
  p.count = count;
  p.parameter = b.put(random_floats(count, "p"), shift);
  p.gradient = b.put(random_floats(count, "g"));
  p.first_moment = b.put(random_floats(count, "m", -0.1f, 0.1f));
  p.second_moment = b.put(random_floats(count, "v", 0, 0.1f));
  p.gradient_scale = b.put(Floats{0.5f});
  p.learning_rate = 0.01f;
  p.beta1 = 0.9f;
  p.beta2 = 0.95f;
  p.epsilon = 1e-8f;
  p.weight_decay = 0.1f;
  p.bias_correction1 = 1 - 0.9f * 0.9f;
  p.bias_correction2 = 1 - 0.95f * 0.95f;
  b.kernels().optimizer.adamw(b.stream(), p);
}

void run_sgd(Bench& b, Index count, Index shift, bool momentum) {
  Sgd p{};
  p.count = count;
  p.parameter = b.put(random_floats(count, "p"), shift);
  p.gradient = b.put(random_floats(count, "g"));
  p.momentum_buffer = momentum ? b.put(random_floats(count, "b")) : nullptr;
  p.learning_rate = 0.1f;
  p.momentum = momentum ? 0.9f : 0.0f;
  p.weight_decay = 0.01f;
  p.gradient_scale = b.put(Floats{0.5f});
  b.kernels().optimizer.sgd(b.stream(), p);
}

TEST(CudaOptimizer, AdamWAgrees) {
  expect_twins(
      [](Bench& b) {
        for (const Index count : counts)
          for (const Index shift : shifts) run_adamw(b, count, shift);
      },
      1e-6);
}

TEST(CudaOptimizer, SgdAgreesWithAndWithoutMomentum) {
  expect_twins(
      [](Bench& b) {
        for (const Index count : counts)
          for (const Index shift : shifts)
            for (const bool momentum : {false, true}) run_sgd(b, count, shift, momentum);
      },
      3e-7);
}

TEST(CudaOptimizer, SumsOfSquaresAgreeInFp64) {
  expect_twins(
      [](Bench& b) {
        for (const Index count : {0, 1, 2, 3, 7, 1027, 20000})
          for (const Index shift : {0, 1, 3}) {
            const float* x = b.put(random_floats(count, "x"), shift);
            double* sum = b.put(std::vector<double>{0.125});
            b.kernels().optimizer.add_sum_of_squares(b.stream(), x, count, sum);
            b.kernels().optimizer.add_sum_of_squares(b.stream(), x, count / 2, sum);
          }
      },
      1e-15);  // of the largest sum
}

TEST(CudaOptimizer, WhatCannotBeIsRefused) {
  Bench b(open_gpu());
  EXPECT_THROW(b.kernels().optimizer.adamw(b.stream(), AdamW{}), Error);  // step 0
  Sgd p{};
  p.momentum = 0.9f;
  EXPECT_THROW(b.kernels().optimizer.sgd(b.stream(), p), Error);  // no buffer
}

}  // namespace
}  // namespace trireme::test
