// Plan::work: what each step does, with the defaults of ops, and what the executor says of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/runner.h"

namespace trireme::test {
namespace {

using Phase = StepWork::Phase;
using testing::Each;
using testing::ElementsAre;

constexpr Index rows = 4, width = 8;
constexpr double value_bytes = 4.0 * rows * width, weight_bytes = 4.0 * width * width;

/// tanh(x w), added to itself twice over: the gradient of the sum comes in two parts.
Value loss_of(Graph& g) {
  const Value x = g.input("x", {rows, width});
  const Value y = g.block("block", 0, [&] {
    return g.recompute([&] {
      const Value w = g.parameter("w", {width, width}, replicated(), normal(1));
      return apply<Linear>({x, w}).apply<Tanh>();
    });
  });
  const Value z = apply<Add>({y, y.apply<Tanh>()});
  return apply<SquaredError>({z, g.input("target", {rows, width})});
}

std::vector<std::string> ops_of(const std::vector<StepWork>& work, Phase phase) {
  std::vector<std::string> ops;
  for (const StepWork& step : work)
    if (step.phase == phase) ops.push_back(step.op);
  return ops;
}

std::vector<double> bytes_of(const std::vector<StepWork>& work, const std::string& op,
                             Phase phase) {
  std::vector<double> all;
  for (const StepWork& step : work)
    if (step.op == op && step.phase == phase && !step.idle) all.push_back(step.bytes);
  return all;
}

class Counting final : public ExecutorHooks {
 public:
  void step_queued(int step) override { steps.push_back(step); }
  void op_boundary() override { boundaries.push_back(static_cast<int>(steps.size())); }
  std::vector<int> steps, boundaries;
};

TEST(Work, HasEveryStepOfAPlanInItsPhase) {
  Graph g;
  const Value loss = loss_of(g);
  const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0);
  const std::vector<StepWork>& work = plan.work();
  EXPECT_THAT(ops_of(work, Phase::forward),
              ElementsAre("linear", "tanh", "tanh", "add", "squared_error"));
  EXPECT_THAT(ops_of(work, Phase::backward),
              ElementsAre("squared_error", "tanh", "tanh", "linear"));
  EXPECT_THAT(ops_of(work, Phase::recompute), ElementsAre("linear", "tanh"));
  for (const StepWork& step : work) EXPECT_EQ(step.idle, step.bytes == 0) << step.op;
}

TEST(Work, CountsTheBytesOfEachStep) {
  Graph g;
  const Value loss = loss_of(g);
  const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0);
  const std::vector<StepWork>& work = plan.work();
  EXPECT_THAT(bytes_of(work, "load", Phase::step), Each(2 * value_bytes));
  EXPECT_THAT(bytes_of(work, "add", Phase::forward), ElementsAre(3 * value_bytes));
  EXPECT_THAT(bytes_of(work, "tanh", Phase::backward), Each(3 * value_bytes));
  for (const Phase phase : {Phase::forward, Phase::recompute})
    EXPECT_THAT(bytes_of(work, "linear", phase), ElementsAre(2 * value_bytes + weight_bytes));
  // x, w and dy are read; dw is added to what is there
  EXPECT_THAT(bytes_of(work, "linear", Phase::backward),
              ElementsAre(2 * value_bytes + weight_bytes + 2 * weight_bytes));
}

TEST(Work, SaysInWhichCallAGradientIsComplete) {
  using Call = StepWork::Call;
  Graph g;
  const Value loss = loss_of(g);
  for (const auto backward : {PlanOptions::Backward::whole, PlanOptions::Backward::split}) {
    const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0, {.backward = backward});
    const bool split = backward == PlanOptions::Backward::split;
    for (const StepWork& step : plan.work()) {
      const bool of_weight = step.op == "linear" && step.phase == Phase::backward;
      EXPECT_THAT(step.ready, of_weight ? std::vector<int>{0} : std::vector<int>{});
      if (step.phase == Phase::forward || of_weight) {
        EXPECT_EQ(step.call, !of_weight ? Call::forward
                             : split    ? Call::parameter_backward
                                        : Call::backward);
      }
    }
  }
}

TEST(Work, StepsAreReportedInTheirOrderBeforeTheBoundary) {
  Graph g;
  const Value loss = loss_of(g);
  const StageCut cut = cut_stages(g, {loss}, 1);
  const std::unique_ptr<Mesh> mesh = make_self_mesh();
  Counting counting;
  Stage stage(g, {loss}, cut, 0, {}, initial_parameters(g), *mesh, 1, &counting);
  std::vector<float> values(rows * width, 0.5f);
  const Tensor tensor(values.data(), {rows, width});
  const std::vector<Tensor> inputs = {tensor, tensor};
  MicroBatch batch;
  batch.inputs = inputs;
  stage.executor->forward(0, batch);
  stage.executor->backward(0, batch);
  ASSERT_EQ(counting.steps.size(), stage.plan.work().size());
  for (std::size_t i = 0; i < counting.steps.size(); ++i) {
    EXPECT_EQ(counting.steps[i], static_cast<int>(i));
    EXPECT_EQ(counting.boundaries[i], static_cast<int>(i) + 1);
  }
}

}  // namespace
}  // namespace trireme::test
