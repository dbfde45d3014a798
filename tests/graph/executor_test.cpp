// The executor on one stage: gradients against hand-written ones, hooks, results, messages.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/device_scalars.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/runner.h"
#include "tests/support/message_of.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

TEST(Executor, GradientsOfALinearRegressionAreTheHandWrittenOnes) {
  Graph g;
  const Value x = g.input("x", {3, 2}), y = g.input("y", {3, 1});
  const Value w = g.parameter("w", {1, 2}, replicated(), normal(1));
  const Value loss = apply<SquaredError>({apply<Linear>({x, w}), y});
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

TEST(Executor, TheLossMayBeF32) {
  Graph g;
  const Value x = g.input("x", {1, 3});
  const Value y = apply<Linear>({x, g.parameter("w", {1, 3}, replicated(), normal(1))});
  const Value loss = apply<Reshape>({y}, Shape{});
  const auto mesh = make_self_mesh();
  Stage s(g, {loss}, cut_stages(g, {loss}, 1), 0, {}, initial_parameters(g), *mesh);
  const InputData data(g, 0);
  const MicroBatch batch{.last = true, .inputs = data.tensors()};
  s.scalars.write({.loss_scale = 0.5});
  s.executor->forward(0, batch);
  s.executor->backward(0, batch);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(s.gradients[0][i], 0.5f * data.tensors()[0].as<float>()[i]);
}

/// Writes down what the executor says.
class Recorder final : public ExecutorHooks {
 public:
  void gradient_ready(int position) override { ready.push_back(position); }
  void op_boundary() override { ++boundaries; }
  std::vector<int> ready;
  int boundaries = 0;
};

Value three_blocks(Graph& g) {
  Value h = g.input("x", {4, 6});
  for (int i = 0; i < 3; ++i)
    h = g.block("block", i, [&] {
      return g.recompute([&] {
        const Value w = g.parameter("w", {6, 6}, replicated(), normal(1));
        return apply<Add>({h, apply<Tanh>({apply<Linear>({h, w})})});
      });
    });
  return apply<SquaredError>({h, g.input("y", {4, 6})});
}

TEST(Executor, ReportsReadyGradientsInFlatOrder) {
  Graph g;
  const Value loss = three_blocks(g);
  const auto mesh = make_self_mesh();
  Recorder hooks;
  Stage s(g, {loss}, cut_stages(g, {loss}, 1), 0, {}, initial_parameters(g), *mesh, 1, &hooks);
  EXPECT_EQ(s.plan.parameters(), (std::vector<int>{2, 1, 0}))
      << "the last block's gradient is ready first";
  const InputData data(g, 0);
  MicroBatch batch{.last = false, .inputs = data.tensors()};
  s.executor->forward(0, batch);
  s.executor->backward(0, batch);
  EXPECT_TRUE(hooks.ready.empty()) << "not the last micro-batch";
  EXPECT_GT(hooks.boundaries, 10);
  batch.last = true;
  s.executor->forward(0, batch);
  s.executor->backward(0, batch);
  EXPECT_EQ(hooks.ready, (std::vector<int>{0, 1, 2}));
}

TEST(Executor, ReadyGradientsAreFinal) {
  struct Snapshot final : ExecutorHooks {
    Stage* stage = nullptr;
    std::vector<std::vector<float>> seen;
    void gradient_ready(int p) override {
      seen.push_back(stage->gradients[static_cast<std::size_t>(p)]);
    }
  };
  for (unsigned seed = 0; seed < 20; ++seed)
    for (const auto backward : {PlanOptions::Backward::whole, PlanOptions::Backward::split}) {
      const RandomGraph random(seed);
      const auto mesh = make_self_mesh();
      Snapshot hooks;
      PlanOptions options;
      options.backward = backward;
      Stage s(random.graph, {random.loss}, cut_stages(random.graph, {random.loss}, 1), 0, options,
              initial_parameters(random.graph), *mesh, 1, &hooks);
      hooks.stage = &s;
      const InputData data(random.graph, 0);
      const MicroBatch batch{.last = true, .inputs = data.tensors()};
      s.executor->forward(0, batch);
      s.executor->backward(0, batch);
      EXPECT_EQ(hooks.seen, s.gradients) << "seed " << seed;
    }
}

TEST(Executor, AParameterWithoutAGradientIsReadyAtOnce) {
  Graph g;
  const Value x = g.input("x", {2, 3}), w = g.parameter("w", {2, 3}, replicated(), normal(1));
  const Value target = apply<Tanh>({g.parameter("target", {2, 3}, replicated(), normal(1))});
  const Value loss =
      apply<SquaredError>({apply<Mul>({x, w}), target});  // no gradient to the target
  const auto mesh = make_self_mesh();
  Recorder hooks;
  Stage s(g, {loss}, cut_stages(g, {loss}, 1), 0, {}, initial_parameters(g), *mesh, 1, &hooks);
  EXPECT_EQ(s.plan.parameters(), (std::vector<int>{1, 0}));
  const InputData data(g, 0);
  s.executor->forward(0, {.inputs = data.tensors()});
  s.executor->backward(0, {.last = true, .inputs = data.tensors()});
  EXPECT_EQ(hooks.ready, (std::vector<int>{0, 1}));
  EXPECT_EQ(s.gradients[0], std::vector<float>(6, 0.0f));
}

TEST(Executor, AForwardOnlyPlanGivesAnyNumberOfResults) {
  Graph g;
  const Value x = g.input("x", {2, 6});
  Value h = x, middle;
  for (int i = 0; i < 4; ++i) {
    h = g.block("block", i, [&] { return h.apply<Tanh>(); });
    if (i == 0) middle = h;
  }
  const Values results{middle, h, h.apply<Slice>(1, 0, 2)};
  const auto mesh = make_self_mesh();
  PlanOptions options;
  options.mode = PlanOptions::Mode::forward_only;
  options.poison = true;
  const InputData data(g, 0);
  const StageCut cut = cut_stages(g, results, 2);
  Stage first(g, results, cut, 0, options, {}, *mesh),
      second(g, results, cut, 1, options, {}, *mesh);
  first.executor->forward(1, {.inputs = data.tensors()});
  carry(first, first.plan.send_values(), second, second.plan.receive_values(), 1);
  second.executor->forward(1, {.inputs = data.tensors()});
  float expected = data.tensors()[0].as<float>()[0];
  EXPECT_EQ(first.executor->result(1, 0).as<float>()[0], std::tanh(expected));
  for (int i = 0; i < 4; ++i) expected = std::tanh(expected);
  EXPECT_EQ(second.executor->result(1, 1).as<float>()[0], expected);
  EXPECT_EQ(second.executor->result(1, 2).as<float>()[0], expected);
  EXPECT_EQ(second.executor->result(1, 2).shape, (Shape{2, 2}));
  EXPECT_THROW(second.executor->result(1, 0), Error);
  EXPECT_THROW(second.executor->backward(1, {}), Error);
  EXPECT_EQ(second.plan.receive_gradients().bytes, 0);
}

/// Gives a random number of the step.
class Draws final : public Elementwise {
 public:
  std::string name() const override { return "draws"; }
  void forward(Exec& e) const override { e.output(0).as<float>()[0] = e.random().now().uniform(0); }
  void backward(Exec&) const override {}
};

TEST(Executor, OpsDrawTheRandomNumbersOfTheStepInTheBlock) {
  Graph g;
  const Value y = g.scope("mlp", [&] { return g.input("x", {1, 2}).apply<Draws>(); });
  const auto mesh = make_self_mesh();
  PlanOptions options;
  options.mode = PlanOptions::Mode::forward_only;
  Stage s(g, {y}, cut_stages(g, {y}, 1), 0, options, {}, *mesh, 1, nullptr, {.seed = 9});
  const InputData data(g, 0);
  for (const Index step : {0, 7, 8}) {
    s.scalars.write({.step = step});
    s.executor->forward(0, {.inputs = data.tensors()});
    EXPECT_EQ(s.executor->result(0).as<float>()[0],
              random_for(9, "mlp/draws", static_cast<std::uint64_t>(step)).uniform(0));
  }
}

/// Infinite for large inputs.
class Explodes final : public Elementwise {
 public:
  std::string name() const override { return "explodes"; }
  void forward(Exec& e) const override {
    e.output(0).as<float>()[0] = std::numeric_limits<float>::infinity();
  }
  void backward(Exec&) const override {}
};

TEST(Executor, CheckFiniteNamesTheFirstOpAndTheMicroBatch) {
  Graph g;
  const Value y = g.scope("mlp", [&] {
                     return g.input("x", {2, 3}).apply<Explodes>();
                   }).apply<Tanh>();
  const auto mesh = make_self_mesh();
  PlanOptions options;
  options.mode = PlanOptions::Mode::forward_only;
  const Plan plan(g, {y}, cut_stages(g, {y}, 1), 0, options);
  std::vector<std::byte> slot(static_cast<std::size_t>(plan.bytes().slot)),
      scratch(static_cast<std::size_t>(plan.bytes().scratch));
  TestDevice device;
  TestStream stream(device);
  ExecutorHooks hooks;
  const DeviceScalars scalars(stream);
  Executor executor(
      plan, {slot.data(), plan.bytes().slot, scratch.data(), {}, {}, nullptr, scalars.data()},
      stream, *mesh, hooks, {.check_finite = true});
  const InputData data(g, 0);
  EXPECT_THAT(
      message_of([&] { executor.forward(0, {.step = 7, .number = 5, .inputs = data.tensors()}); }),
      HasSubstr("'mlp/explodes': output 0 is not finite in micro-batch 5 of step 7"));
}

/// Copies, and is wrong in one way, which may change from call to call.
class Careless final : public Op {
 public:
  enum class Way { right, half_an_output, beyond_the_output, no_gradient, beyond_the_gradient };
  explicit Careless(const Way* way) : way_(*way) {}
  std::string name() const override { return "careless"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  void forward(Exec& e) const override {
    copy(e.input(0), e.output(0), way_ == Way::half_an_output, way_ == Way::beyond_the_output);
  }
  void backward(Exec& e) const override {
    if (way_ == Way::no_gradient) return;
    copy(e.grad_output(0), e.grad_input(0), false, way_ == Way::beyond_the_gradient);
  }

 private:
  static void copy(const Tensor& from, const Tensor& to, bool half, bool beyond) {
    const Index count = to.count();
    std::copy_n(from.as<float>(), half ? count / 2 : count, to.as<float>());
    if (beyond) to.as<float>()[count + 2] = 1;
  }
  const Way& way_;
};

TEST(Executor, CheckFiniteNamesTheOpThatDoesNotWriteWhatItHasTo) {
  using Way = Careless::Way;
  const std::pair<Way, std::string> ways[] = {
      {Way::right, ""},
      {Way::half_an_output,
       "'careless': output 0 is not finite in micro-batch 5 of step 7 (what an "
       "op leaves unwritten is NaN under --check-finite)"},
      {Way::beyond_the_output,
       "'careless' writes beyond the end of output 0 in forward of "
       "micro-batch 5 of step 7"},
      {Way::no_gradient,
       "'careless': the gradient of input 0 is not finite in micro-batch 5 of "
       "step 7 (what an op leaves unwritten is NaN under --check-finite)"},
      {Way::beyond_the_gradient,
       "'careless' writes beyond the end of the gradient of input 0 in "
       "backward of micro-batch 5 of step 7"}};
  for (const auto& [way, expected] : ways) {
    Graph g;
    const Value x = g.input("x", {2, 3}), y = g.input("y", {2, 3});
    const Value w = g.parameter("w", {2, 3}, replicated(), normal(1));
    Way now = Way::right;  // finite numbers in all of the memory
    const Value loss = apply<SquaredError>({apply<Careless>({apply<Mul>({x, w})}, &now), y});
    const auto mesh = make_self_mesh();
    Stage s(g, {loss}, cut_stages(g, {loss}, 1), 0, {.guard = true}, initial_parameters(g), *mesh,
            1, nullptr, {.check_finite = true});
    const InputData data(g, 0);
    const MicroBatch batch{.step = 7, .number = 5, .inputs = data.tensors()};
    const auto run_once = [&] {
      s.executor->forward(0, batch);
      s.executor->backward(0, batch);
    };
    run_once();
    now = way;
    EXPECT_EQ(message_of(run_once), expected);
  }
}

TEST(Executor, CheckFiniteNamesALossThatBackwardMakes) {
  Graph g;
  const Value x = g.input("x", {2, 3}), target = g.input("target", {2, 3});
  const Value w = g.parameter("w", {2, 3}, replicated(), normal(1));
  const Value loss = apply<WeightedError>({apply<Mul>({x, w}), target, w}, LossMade::in_backward);
  const auto mesh = make_self_mesh();
  Stage s(g, {loss}, cut_stages(g, {loss}, 1), 0, {}, initial_parameters(g), *mesh, 1, nullptr,
          {.check_finite = true});
  const InputData data(g, 0);
  const MicroBatch batch{.step = 7, .number = 5, .inputs = data.tensors()};
  data.tensors()[1].as<float>()[4] = std::numeric_limits<float>::infinity();
  s.executor->forward(0, batch);
  EXPECT_THAT(message_of([&] { s.executor->backward(0, batch); }),
              HasSubstr("'weighted_error': output 0 is not finite in micro-batch 5 of step 7"));
}

TEST(Executor, RefusesWrongMemoryInputsAndCalls) {
  Graph g;
  const Value x = g.input("x", {3, 2}), y = g.input("y", {3, 1});
  const Value w = g.parameter("w", {1, 2}, replicated(), normal(1));
  const Value loss = apply<SquaredError>({apply<Linear>({x, w}), y});
  const auto mesh = make_self_mesh();
  const StageCut cut = cut_stages(g, {loss}, 1);
  Stage s(g, {loss}, cut, 0, {}, initial_parameters(g), *mesh);
  const InputData data(g, 0);
  std::vector<Tensor> inputs(data.tensors().begin(), data.tensors().end());
  EXPECT_THAT(message_of([&] { s.executor->forward(0, {.inputs = std::span(inputs).first(1)}); }),
              HasSubstr("'y'"));
  inputs[0].shape = Shape{2, 3};
  EXPECT_THAT(
      message_of([&] { s.executor->forward(0, {.inputs = inputs}); }),
      HasSubstr("input 'x' of micro-batch 0 has to be a packed f32 (3, 2), not f32 (2, 3)"));
  EXPECT_THAT(
      message_of([&] { s.executor->backward(0, {.inputs = data.tensors()}, BackwardPart::input); }),
      HasSubstr("Backward::split"));
  EXPECT_THAT(message_of([&] { s.executor->result(0, 1); }), HasSubstr("result 1 does not exist"));
  ExecutorHooks hooks;
  EXPECT_THAT(message_of([&] { Executor(s.plan, {}, s.stream, *mesh, hooks); }),
              HasSubstr("needs 1 parameters, not 0"));
  EXPECT_THAT(message_of([&] { Plan(g, {loss}, cut, 1); }),
              HasSubstr("stage 1 does not lie in a cut of 1 stages"));
  apply<Tanh>({x});
  EXPECT_THAT(message_of([&] { Plan(g, {loss}, cut, 0); }), HasSubstr("nodes were added after"));
}

}  // namespace
}  // namespace trireme::test
