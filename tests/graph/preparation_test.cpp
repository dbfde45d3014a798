// What ops do before the first step, and values that no gradient comes back through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/runner.h"
#include "tests/support/message_of.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// y = 2 x, which writes down what it is asked for.
class Watched final : public Elementwise {
 public:
  explicit Watched(std::vector<std::string>* calls) : calls_(calls) {}
  std::string name() const override { return "watched"; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  Index forward_workspace_bytes(const Specs&) const override { return 8; }

  void prepare_forward(Exec& e, Preparation& preparation) const override {
    see("prepare forward", {e.input(0), e.output(0)}, e.workspace());
    ++preparation.timed;
  }
  void prepare_backward(Exec& e, Preparation& preparation) const override {
    see("prepare backward", {e.input(0), e.grad_output(0), e.grad_input(0)}, e.workspace());
    preparation.notes.push_back("backward");
  }
  void forward(Exec& e) const override {
    calls_->push_back("forward");
    for (Index i = 0; i < e.input(0).count(); ++i)
      e.output(0).as<float>()[i] = 2 * e.input(0).as<float>()[i];
  }
  void backward(Exec& e) const override {
    calls_->push_back("backward");
    for (Index i = 0; i < e.input(0).count(); ++i)
      e.grad_input(0).as<float>()[i] = 2 * e.grad_output(0).as<float>()[i];
  }

 private:
  void see(const char* call, const std::vector<Tensor>& tensors, const void* workspace) const {
    calls_->push_back(call);
    EXPECT_NE(workspace, nullptr);
    for (const Tensor& x : tensors) EXPECT_NE(x.data, nullptr);
  }
  std::vector<std::string>* calls_;
};

Value watched(Value x, std::vector<std::string>* calls) {
  return x.graph().apply(std::make_shared<Watched>(calls), {x}).front();
}
Value error_of(Value x) {
  return x.graph()
      .apply(std::make_shared<SquaredError>(), {x, x.graph().input("y", x.shape())})
      .front();
}

TEST(Preparation, AsksEveryOpOnceForEachOfItsCallsAndRunsNone) {
  for (const bool again : {false, true}) {
    std::vector<std::string> calls;
    Graph g;
    const Value x = g.parameter("x", {2, 3}, replicated(), normal(1));
    const auto twice = [&] { return watched(watched(x, &calls), &calls); };
    const Value loss = error_of(again ? g.recompute(twice) : twice());
    const auto mesh = make_self_mesh();
    Stage stage(g, {loss}, cut_stages(g, {loss}, 1), 0, {}, initial_parameters(g), *mesh);
    Preparation preparation;
    Index steps = 0;
    stage.executor->prepare(preparation, [&] { ++steps; });
    std::vector<std::string> expected = {"prepare forward", "prepare forward"};
    if (again)
      expected.push_back("prepare forward");  // the first one, before its reader's backward
    expected.insert(expected.end(), 2, "prepare backward");
    EXPECT_EQ(calls, expected);
    EXPECT_EQ(steps, stage.executor->preparations());
    EXPECT_EQ(preparation.timed, again ? 3 : 2);
    EXPECT_THAT(preparation.notes, ElementsAre("backward", "backward"));
  }
}

TEST(Preparation, OfAForwardOnlyPlanHasNoBackward) {
  std::vector<std::string> calls;
  Graph g;
  const Value y = watched(g.input("x", {2, 3}), &calls);
  const auto mesh = make_self_mesh();
  Stage stage(g, {y}, cut_stages(g, {y}, 1), 0, {.mode = PlanOptions::Mode::forward_only},
              initial_parameters(g), *mesh);
  Preparation preparation;
  stage.executor->prepare(preparation, [] {});
  EXPECT_THAT(calls, ElementsAre("prepare forward"));
}

/// x + 1 and, detached, twice that.
class Pair final : public Op {
 public:
  std::string name() const override { return "pair"; }
  Outputs infer(const Specs& in) const override { return {in[0], Output::detached(in[0])}; }
  void forward(Exec& e) const override {
    for (Index i = 0; i < e.input(0).count(); ++i) {
      e.output(0).as<float>()[i] = e.input(0).as<float>()[i] + 1;
      e.output(1).as<float>()[i] = 2 * e.output(0).as<float>()[i];
    }
  }
  void backward(Exec& e) const override {
    for (Index i = 0; i < e.grad_input(0).count(); ++i)
      e.grad_input(0).as<float>()[i] = e.grad_output(0).as<float>()[i];
    EXPECT_THAT(message_of([&] { e.grad_output(1); }), HasSubstr("not there"));
  }
};

/// The second input, twice the first: its gradient goes to the first.
class OfPair final : public Op {
 public:
  std::string name() const override { return "of_pair"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  bool differentiable(int input) const override { return input == 0; }
  void forward(Exec& e) const override {
    for (Index i = 0; i < e.input(0).count(); ++i)
      e.output(0).as<float>()[i] = e.input(1).as<float>()[i];
  }
  void backward(Exec& e) const override {
    for (Index i = 0; i < e.grad_input(0).count(); ++i)
      e.grad_input(0).as<float>()[i] = 2 * e.grad_output(0).as<float>()[i];
  }
};

TEST(DetachedOutput, HasNoGradientAndCostsNoMemoryForOne) {
  Graph g;
  const Value x = g.parameter("x", {2, 3}, replicated(), normal(1));
  const Values pair = g.apply(std::make_shared<Pair>(), {x});
  const Value loss = error_of(g.apply(std::make_shared<OfPair>(), pair).front());
  const RunResult result = run(g, loss, {.micro_batches = 1});
  const InputData data(g, 0);
  const std::vector<float> start = initial_parameters(g)[0];
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float error = 2 * (start[i] + 1) - data.tensors()[0].as<float>()[i];
    EXPECT_NEAR(result.gradients.at(0).at(i), 0.25f * 2 * error, 1e-6f);
  }
  const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0);
  for (const Instance& instance : plan.instances())
    EXPECT_EQ(instance.name.find("grad pair.1"), std::string::npos) << instance.name;
}

TEST(DetachedOutput, IsRefusedByAnOpThatWouldSendAGradientThere) {
  Graph g;
  const Values pair = g.apply(std::make_shared<Pair>(), {g.input("x", {2, 3})});
  const std::string message = message_of([&] { error_of(pair[1]); });
  EXPECT_THAT(message, HasSubstr("'pair.1', is detached"));
  EXPECT_EQ(message_of([&] { watched(pair[0], nullptr); }), "");
}

}  // namespace
}  // namespace trireme::test
