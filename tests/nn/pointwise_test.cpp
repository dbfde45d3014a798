// Ops made from two scalar functions: against formulas and finite differences, in both types, on
// every number of threads and of tensor ranks.
#include "trireme/nn/pointwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/nn/linear.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"
#include "tests/nn/run_graph.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

float logistic(float x) { return 1 / (1 + std::exp(-x)); }

Value gated(Value x, Value gate) {
  return pointwise(
      "gated", [](float a, float b) { return a * logistic(b); },
      [](float a, float b) {
        const float s = logistic(b);
        return Slopes{s, a * s * (1 - s)};
      },
      x, gate);
}
/// No gradient flows to the target.
Value huber(Value x, Value target) {
  return pointwise_sum(
      "huber",
      [](float a, float b) {
        const float d = std::fabs(a - b);
        return d < 1 ? d * d / 2 : d - 0.5f;
      },
      [](float a, float b) { return std::clamp(a - b, -1.0f, 1.0f); }, x, target);
}

TEST(Pointwise, IsTheFormulaOfEveryElement) {
  std::vector<float> a = random_floats("a", 33), b = random_floats("b", 33);
  RunOptions options{.inputs = {{"a", tensor_of(a, {3, 11})}, {"b", tensor_of(b, {3, 11})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph(
      [](Graph& g) {
        return gated(g.input("a", {3, 11}), g.input("b", {3, 11}));
      },
      options);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_FLOAT_EQ(run.result[i], a[i] * logistic(b[i])) << i;
}

TEST(Pointwise, GradientsAreThoseOfFiniteDifferences) {
  const auto device = open_cpu();
  const auto of = [](auto op) {
    return [op](Graph&, const Values& in) { return op(in[0], in[1]); };
  };
  EXPECT_LT(gradient_check(of(gated), {CheckInput({7, 33}), CheckInput({7, 33})}, *device), 1e-4);
  CheckInput target({7, 33});
  target.differentiable = false;
  EXPECT_LT(gradient_check(of(huber), {CheckInput({7, 33}, -0.4, 0.4), target}, *device), 1e-3);
}

TEST(Pointwise, RefusesShapesThatDiffer) {
  EXPECT_THAT(message_of([] {
                Graph g;
                gated(g.input("a", {4, 1}), g.input("b", {4, 9}));
              }),
              AllOf(HasSubstr("op 'gated'"), HasSubstr("not f32 (4, 1) and f32 (4, 9)"),
                    HasSubstr("'a' f32 (4, 1), 'b' f32 (4, 9)")));
  EXPECT_THAT(message_of([] { gated(Value(), Value()); }),
              HasSubstr("op 'gated' was given an empty Value as input 0"));
}

TEST(Pointwise, IsRefusedOnAGpuWhereNoKernelWasCompiled) {
  Graph g;
  const Value x = g.input("a", {4, 1});
  gated(x, x);
  EXPECT_FALSE(g.nodes().back().op->works_on(DeviceKind::cuda));
  EXPECT_TRUE(g.nodes().back().op->works_on(DeviceKind::cpu));
}

constexpr Index value_rows = 6, value_width = 8;

/// Column and row linears with a gate between them, and a loss of its own.
GraphRun run_model(int ranks, DType compute = DType::f32, int threads = 1) {
  std::vector<float> x = random_floats("x", value_rows * value_width),
                     y = random_floats("y", value_rows * value_width);
  return run_graph(
      [](Graph& g) {
        const Value in = g.input("x", {value_rows, value_width});
        const Value a = column_linear(in, "up", 2 * value_width),
                    b = column_linear(in, "gate", 2 * value_width);
        return huber(row_linear(gated(a, b), "down", value_width),
                     g.input("y", {value_rows, value_width}));
      },
      {.tensor_size = ranks,
       .inputs = {{"x", tensor_of(x, {value_rows, value_width})},
                  {"y", tensor_of(y, {value_rows, value_width})}},
       .threads = threads,
       .compute = compute});
}

TEST(Pointwise, AgreesWithOneRankOnSplitValues) {
  const Difference d = difference(run_model(2), run_model(1));
  EXPECT_LT(d.loss, 2e-7);
  EXPECT_LT(d.gradients, 1e-5) << d.worst;
}

TEST(Pointwise, WorksInBf16) {
  const Difference d = difference(run_model(1, DType::bf16), run_model(1));
  EXPECT_LT(d.loss, 0.02);
  EXPECT_LT(d.gradients, 0.03) << d.worst;
  EXPECT_GT(d.gradients, 0);
}

/// A sum of many elements, of a parameter split over the tensor axis.
GraphRun sum_of_many(int ranks, int threads) {
  return run_graph(
      [](Graph& g) {
        const Value x = g.parameter("x", {8, 40'000}, shard(0), normal(1));
        return pointwise_sum(
            "squares", [](float a) { return a * a / 2; }, [](float a) { return a; }, x);
      },
      {.tensor_size = ranks, .inputs = {}, .threads = threads});
}

TEST(PointwiseSum, HasOneOrderWhateverTheThreads) {
  const GraphRun one = sum_of_many(1, 1), three = sum_of_many(1, 3);
  EXPECT_EQ(one.loss, three.loss);
  EXPECT_EQ(one.gradients, three.gradients);
}

TEST(PointwiseSum, OfSplitValuesIsThatOfAllRanks) {
  const Difference d = difference(sum_of_many(2, 1), sum_of_many(1, 1));
  EXPECT_LT(d.loss, 1e-12);
  EXPECT_EQ(d.gradients, 0) << d.worst;
}

TEST(PointwiseSum, RefusesAWholeValueBesideASplitOne) {
  EXPECT_THAT(
      message_of([] {
        Graph g(0, 2);
        const Value x = g.parameter("x", {4, 2}, shard(0), normal(1));
        huber(g.input("y", {2, 2}), x);
      }),
      AllOf(HasSubstr("all replicated or all sharded"), HasSubstr("leave the tensor-parallel")));
}

}  // namespace
}  // namespace trireme
