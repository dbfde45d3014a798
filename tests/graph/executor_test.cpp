// Gradients of one stage: against hand-written ones, and against finite differences.
#include <gtest/gtest.h>

#include "tests/graph/runner.h"

namespace trireme::test {
namespace {

TEST(Executor, GradientsOfALinearRegressionAreTheHandWrittenOnes) {
  Graph g;
  const Value x = g.input("x", {3, 2}), y = g.input("y", {3, 1});
  const Value w = g.parameter("w", {1, 2}, replicated(), normal(1));
  const Value loss = g.apply(std::make_shared<SquaredError>(),
                             {g.apply(std::make_shared<Linear>(), {x, w})[0], y})[0];
  const RunResult result = run(g, loss, {.micro_batches = 1});
  const InputData data(g, 0);
  const float* xs = data.tensors()[0].as<float>();
  const float* ys = data.tensors()[1].as<float>();
  const auto ws = initial_parameters(g)[0];
  double expected_loss = 0, expected[2] = {0, 0};
  for (int r = 0; r < 3; ++r) {
    const double d = xs[2 * r] * ws[0] + xs[2 * r + 1] * ws[1] - ys[r];
    expected_loss += d * d / 2;
    for (int i = 0; i < 2; ++i) expected[i] += 0.25 * d * xs[2 * r + i];
  }
  EXPECT_NEAR(result.losses.at(0), expected_loss, 1e-6);
  EXPECT_NEAR(result.gradients.at(0).at(0), expected[0], 1e-6);
  EXPECT_NEAR(result.gradients.at(0).at(1), expected[1], 1e-6);
}

}  // namespace
}  // namespace trireme::test
