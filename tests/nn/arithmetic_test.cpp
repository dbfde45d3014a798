// Arithmetic on values: formulas, gradients, both types, and the tensor axis.
#include "trireme/nn/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/nn/add.h"

#include "tests/nn/reference.h"
#include "tests/nn/run_graph.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::HasSubstr;

/// Whole, and split over two tensor ranks; in f32 and in bf16.
void expect_right(Value (*op)(Value, Value), double low = -1, double high = 1) {
  const auto build = [op](Graph&, const Values& in) { return op(in[0], in[1]); };
  GradientCheckOptions options{
      .tensor_ranks = 2, .device = [] { return open_cpu(); }, .bf16 = true};
  for (const Placement placement : {Placement::replicated, Placement::sharded}) {
    CheckInput x({6, 10}, low, high);
    x.placement = placement;
    EXPECT_LT(gradient_check(build, {x, x}, *open_cpu(), options), 1e-4) << placement;
  }
}

TEST(Arithmetic, GradientsAreThoseOfFiniteDifferences) {
  expect_right([](Value a, Value b) { return a * b; });
  expect_right([](Value a, Value b) { return a - b; });
  expect_right([](Value a, Value b) { return 2.0f * a + b * 0.5f - -a; });
  expect_right([](Value a, Value b) { return sigmoid(a) * tanh(b); });
  expect_right([](Value a, Value b) { return exp(a) * relu(b); }, 0.1, 2);
  expect_right([](Value a, Value b) { return concat_columns({a, b, a}); });
  expect_right([](Value a, Value b) { return sum(a * a * b); }, 0.1, 1);
}

TEST(Arithmetic, IsTheFormula) {
  std::vector<float> a = random_floats("a", 12), b = random_floats("b", 12);
  const auto run = [&](const Trace& trace) {
    RunOptions options{.inputs = {{"a", tensor_of(a, {3, 4})}, {"b", tensor_of(b, {3, 4})}}};
    options.plan.mode = PlanOptions::Mode::forward_only;
    return run_graph(trace, options).result;
  };
  const auto formula = run([](Graph& g) {
    const Value x = g.input("a", {3, 4}), y = g.input("b", {3, 4});
    return 3.0f * x * y - sigmoid(x) + tanh(y) - exp(-x) * relu(y);
  });
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(formula[i],
                3 * a[i] * b[i] - 1 / (1 + std::exp(-a[i])) + std::tanh(b[i]) -
                    std::exp(-a[i]) * std::max(b[i], 0.0f),
                2e-6);
  const auto beside = run([](Graph& g) {
    return concat_columns({g.input("a", {3, 4}), g.input("b", {3, 4})});
  });
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 4; ++c) {
      EXPECT_EQ(beside[8 * r + c], a[4 * r + c]);
      EXPECT_EQ(beside[8 * r + 4 + c], b[4 * r + c]);
    }
}

TEST(Arithmetic, MeanIsTheSumOfTheMeansOfRows) {
  const GraphRun of_sum = run_graph(
      [](Graph& g) {
        return sum(g.parameter("x", {3, 4}, replicated(), normal(1)));
      },
      {.inputs = {}});
  const GraphRun of_mean = run_graph(
      [](Graph& g) {
        return mean(g.parameter("x", {3, 4}, replicated(), normal(1)));
      },
      {.inputs = {}});
  EXPECT_NEAR(of_mean.loss, of_sum.loss / 4, 1e-6);
  EXPECT_EQ(of_mean.gradients.at("x"), std::vector<float>(12, 0.25f));
}

/// "a b -> y": the inputs and the output that backward of the op of `y` reads.
std::string saved_by(Value y) {
  const Node& node = y.graph().nodes().back();
  const Saved saved =
      node.op->saved({std::vector(node.inputs.size(), BackwardWork::Gradient::assigned), false});
  return str(saved.has_input(0) ? "a" : "", saved.has_input(1) ? "b" : "",
             saved.has_output(0) ? "y" : "");
}

TEST(Arithmetic, SavesWhatBackwardReadsAndWorksOnGpus) {
  Graph g;
  const Value a = g.parameter("a", {3, 4}, replicated(), normal(1)),
              b = g.parameter("b", {3, 4}, replicated(), normal(1));
  EXPECT_EQ(saved_by(a * b), "ab");
  EXPECT_EQ(saved_by(a - b), "");
  EXPECT_EQ(saved_by(2.0f * a), "");
  EXPECT_EQ(saved_by(-a), "");
  EXPECT_EQ(saved_by(sigmoid(a)), "a");
  EXPECT_EQ(saved_by(tanh(a)), "a");
  EXPECT_EQ(saved_by(relu(a)), "y");
  EXPECT_EQ(saved_by(exp(a)), "y");
  EXPECT_EQ(saved_by(sum(a)), "");
  EXPECT_EQ(saved_by(mean(a)), "");
  for (const Node& node : g.nodes()) EXPECT_TRUE(node.op->works_on(DeviceKind::cuda)) << node.name;
}

TEST(Arithmetic, OfAValueWithItselfHasBothGradients) {
  const auto of = [](Value (*op)(Value)) {
    return [op](Graph&, const Values& in) { return op(in[0]); };
  };
  const CheckInput x({6, 10}, 0.2, 1);
  EXPECT_LT(gradient_check(of([](Value a) { return a * a; }), {x}, *open_cpu()), 1e-4);
  EXPECT_LT(gradient_check(of([](Value a) { return a * a - a; }), {x}, *open_cpu()), 1e-4);
  EXPECT_LT(gradient_check(of([](Value a) { return (a - a * a) * a; }), {x}, *open_cpu()), 1e-4);
}

TEST(Arithmetic, RefusesWhatDoesNotFit) {
  Graph g;
  const Value a = g.input("a", {3, 4}), b = g.input("b", {2, 4});
  EXPECT_THAT(message_of([&] { a* b; }), HasSubstr("op 'multiply'"));
  EXPECT_THAT(message_of([&] { concat_columns({a, b}); }), HasSubstr("of the same rows"));
  EXPECT_THAT(message_of([&] { concat_columns({}); }), HasSubstr("was given no input"));
}

}  // namespace
}  // namespace trireme
