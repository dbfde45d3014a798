// What the plan promises about memory: packing, sharing, recomputation, and that the arenas are
// what they are called.
#include "runtime/graph/compile/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/random_graph.h"
#include "tests/graph/runner.h"

namespace trireme::test {
namespace {

enum class Recomputed { nothing, blocks, nested };

/// A transformer in outline: norms, packed projections, a mixing of three parts, a wide layer,
/// residuals.
Value transformer(Graph& g, int blocks, Recomputed recomputed = Recomputed::nothing) {
  const Index rows = 64, width = 32;
  const Value x = g.input("x", {rows, width}), y = g.input("y", {rows, width});
  const auto linear = [&](Value v, Index out, const char* name) {
    return apply<Linear>({v, g.parameter(name, {out, v.shape()[1]}, replicated(), normal(1))});
  };
  const auto norm = [&](Value v, const char* name) {
    return apply<RmsNorm>({v, g.parameter(name, {width}, replicated(), ones())});
  };
  const auto block = [&](Value h) {
    const Value qkv = linear(norm(h, "norm1"), 3 * width, "qkv");
    const auto part = [&](Index i) { return apply<Slice>({qkv}, 1, i * width, (i + 1) * width); };
    h = apply<Add>({h, linear(apply<Mix>({part(0), part(1), part(2)}), width, "out")});
    return apply<Add>(
        {h, linear(linear(norm(h, "norm2"), 4 * width, "up").apply<Tanh>(), width, "down")});
  };
  Value h = linear(x, width, "in");
  const std::function<Value(Value, int, int)> range = [&](Value v, int begin, int end) -> Value {
    const auto part = [&] {
      if (end - begin == 1) return g.block("block", begin, [&] { return block(v); });
      const int middle = (begin + end) / 2;
      return range(range(v, begin, middle), middle, end);
    };
    const bool scope =
        recomputed == Recomputed::nested || (recomputed == Recomputed::blocks && end - begin == 1);
    return scope ? g.recompute(part) : part();
  };
  h = range(h, 0, blocks);
  return apply<SquaredError>({h, y});
}

PlanBytes bytes(int blocks, Recomputed recomputed, PlanOptions options = {}) {
  Graph g;
  const Value loss = transformer(g, blocks, recomputed);
  return Plan(g, {loss}, cut_stages(g, {loss}, 1), 0, options).bytes();
}

TEST(Plan, PackedIsAtMostFourFifthsOfAllLifetimes) {
  const PlanBytes b = bytes(4, Recomputed::nothing);
  EXPECT_LE(static_cast<double>(b.slot + b.scratch), 0.8 * static_cast<double>(b.unpacked));
  PlanOptions unpacked;
  unpacked.pack = unpacked.share = false;
  const PlanBytes u = bytes(4, Recomputed::nothing, unpacked);
  EXPECT_EQ(u.slot + u.scratch, u.unpacked);
}

TEST(Plan, NoTwoInstancesThatLiveAtOnceOverlapUnlessTheyShare) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const RandomGraph random(seed);
    PlanOptions options;
    options.share = false;
    for (const int stages : {1, 3})
      for (int s = 0; s < stages; ++s) {
        const Plan plan(random.graph, {random.loss},
                        cut_stages(random.graph, {random.loss}, stages), s, options);
        const auto& all = plan.instances();
        for (std::size_t i = 0; i < all.size(); ++i) {
          const Index arena =
              all[i].arena == Instance::Arena::slot ? plan.bytes().slot : plan.bytes().scratch;
          EXPECT_LE(all[i].offset + all[i].bytes, arena);
          for (std::size_t k = 0; k < i; ++k) {
            const bool meet = all[i].begin <= all[k].end && all[k].begin <= all[i].end;
            const bool overlap = all[i].arena == all[k].arena &&
                                 all[i].offset < all[k].offset + all[k].bytes &&
                                 all[k].offset < all[i].offset + all[i].bytes;
            EXPECT_FALSE(meet && overlap) << all[i].name << " and " << all[k].name;
          }
        }
      }
  }
}

TEST(Plan, ResidualGradientsCostNothing) {
  Graph g;
  const Value loss = transformer(g, 4);
  const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0);
  const std::string steps = plan.describe_steps();
  std::set<Index> offsets;
  int residuals = 0;
  for (const Instance& i : plan.instances())
    if (i.name.starts_with("grad ") && i.name.find("/add") != std::string::npos) {
      offsets.insert(i.offset);
      ++residuals;
    }
  EXPECT_EQ(residuals, 8);
  EXPECT_EQ(offsets.size(), 1u)
      << "the gradient of the residual stream is one buffer through all blocks";
}

TEST(Plan, RecomputationKeepsLess) {
  const PlanBytes plain = bytes(8, Recomputed::nothing), blocks = bytes(8, Recomputed::blocks),
                  nested = bytes(8, Recomputed::nested);
  EXPECT_LT(blocks.slot, plain.slot / 5) << "one value a block";
  EXPECT_LT(nested.slot, blocks.slot);
  EXPECT_LT(nested.slot + nested.scratch, blocks.slot + blocks.scratch + plain.slot / 8);
}

/// Counts how often each node runs forward.
class Counter final : public Elementwise {
 public:
  explicit Counter(std::shared_ptr<int> count) : count_(std::move(count)) {}
  std::string name() const override { return "counter"; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  void forward(Exec& e) const override {
    ++*count_;
    e.stream().copy(e.output(0), e.input(0));
  }
  void backward(Exec& e) const override { e.stream().copy(e.grad_input(0), e.grad_output(0)); }

 private:
  std::shared_ptr<int> count_;
};

Value weighted_error(Graph& g, LossMade made = LossMade::in_backward) {
  const Value x = g.input("x", {2, 3}), target = g.input("target", {2, 3});
  const Value w = g.parameter("w", {2, 3}, replicated(), normal(1));
  return apply<WeightedError>({apply<Mul>({x, w}), target, w}, made);
}

/// Does forward of the loss run?
bool runs_forward(const Plan& plan) {
  return plan.describe_steps().find("forward  weighted_error") != std::string::npos;
}

TEST(Plan, ForwardIsLeftOutWhereBackwardMakesTheLoss) {
  for (const LossMade made : {LossMade::in_forward, LossMade::in_backward})
    for (const auto backward : {PlanOptions::Backward::whole, PlanOptions::Backward::split}) {
      Graph g;
      const Value loss = weighted_error(g, made);
      const Value seen = apply<Reshape>({loss}, Shape{});  // a view reads nothing
      for (const auto mode : {PlanOptions::Mode::training, PlanOptions::Mode::forward_only}) {
        const Plan plan(g, {seen}, cut_stages(g, {seen}, 1), 0,
                        {.mode = mode, .backward = backward});
        const bool left_out = made == LossMade::in_backward && mode == PlanOptions::Mode::training;
        EXPECT_EQ(runs_forward(plan), !left_out) << plan.describe_steps();
        EXPECT_EQ(plan.result_in_backward(), left_out);
      }
    }
}

/// 2 x, of one f64.
class Doubled final : public Op {
 public:
  std::string name() const override { return "doubled"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  void forward(Exec& e) const override { *e.output(0).as<double>() = 2 * *e.input(0).as<double>(); }
  void backward(Exec& e) const override {
    *e.grad_input(0).as<double>() = 2 * *e.grad_output(0).as<double>();
  }
};

TEST(Plan, ForwardRunsWhereAnotherOpReadsTheLoss) {
  Graph g;
  const Value loss = weighted_error(g);
  const Value twice = apply<Doubled>({apply<Reshape>({loss}, Shape{})});
  const Plan plan(g, {twice}, cut_stages(g, {twice}, 1), 0);
  EXPECT_TRUE(runs_forward(plan));
  EXPECT_FALSE(plan.result_in_backward());
  const Plan alone(g, {loss}, cut_stages(g, {loss}, 1), 0);  // the reader is not needed
  EXPECT_FALSE(runs_forward(alone));
}

TEST(Plan, ALossThatBackwardMakesKeepsNothingOfItsOwnInTheSlot) {
  const auto kept = [](LossMade made) {
    Graph g;
    const Value loss = weighted_error(g, made);
    const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0);
    Index bytes = 0;
    for (const Instance& i : plan.instances())
      if (i.name.starts_with("weighted_error") && i.arena == Instance::Arena::slot)
        bytes += i.bytes;
    return bytes;
  };
  EXPECT_EQ(kept(LossMade::in_forward), 8 + 6 * 4);
  EXPECT_EQ(kept(LossMade::in_backward), 8);
}

TEST(Plan, OnlyNeededNodesRunAgain) {
  Graph g;
  const Value x = g.input("x", {2, 3}), w = g.parameter("w", {2, 3}, replicated(), normal(1));
  std::vector<std::shared_ptr<int>> counts;
  const auto counted = [&](Value v) {
    counts.push_back(std::make_shared<int>(0));
    return apply<Counter>({v}, counts.back());
  };
  Value h = apply<Mul>({x, w});
  h = g.recompute([&] {
    Value a = counted(h);  // its output is read by the next: again
    a = g.recompute([&] {
      return counted(counted(a));
    });                 // the first inside of two scopes, the second for no op
    return counted(a);  // its output leaves the scope, its input is read
  });
  run(g, apply<SquaredError>({h, x}), {.micro_batches = 1});
  EXPECT_EQ(*counts[0], 2);
  EXPECT_EQ(*counts[1], 3) << "for the outer scope's last node, and for the inner scope";
  EXPECT_EQ(*counts[2], 2) << "for the outer scope's last node";
  EXPECT_EQ(*counts[3], 1);
}

TEST(Plan, WhatNoResultNeedsDoesNotRun) {
  Graph g;
  const Value x = g.input("x", {2, 3}), w = g.parameter("w", {2, 3}, replicated(), normal(1));
  const auto count = std::make_shared<int>(0);
  const Value h = apply<Mul>({x, w});
  apply<Counter>({h}, count);
  run(g, apply<SquaredError>({h, x}));
  EXPECT_EQ(*count, 0);
}

TEST(Plan, SplitBackwardKeepsMore) {
  PlanOptions split;
  split.backward = PlanOptions::Backward::split;
  EXPECT_GT(bytes(4, Recomputed::nothing, split).slot, bytes(4, Recomputed::nothing).slot);
}

TEST(Plan, IsDescribedWithItsLargestTensors) {
  Graph g;
  const Value loss = transformer(g, 4);
  const Plan plan(g, {loss}, cut_stages(g, {loss}, 2), 0);
  const std::string text = plan.describe();
  EXPECT_THAT(text, testing::HasSubstr("stage 0 of 2"));
  EXPECT_THAT(text, testing::HasSubstr("one slot"));
  EXPECT_THAT(text, testing::HasSubstr("values sent"));
  EXPECT_THAT(text, testing::HasSubstr("an instance is one value from its first to its last step"));
  EXPECT_THAT(text, testing::ContainsRegex("[0-9] MFLOP a micro-batch"));
  EXPECT_THAT(text, testing::ContainsRegex("one slot +[0-9.]+ (B|KiB) "));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("1 tensors")));
  EXPECT_THAT(text, testing::HasSubstr("block.0/tanh"));
  EXPECT_THAT(plan.describe_steps(), testing::HasSubstr("backward block.1/linear"));
}

TEST(Plan, AllTransfersAgreeBetweenNeighbours) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const RandomGraph random(seed);
    const StageCut cut = cut_stages(random.graph, {random.loss}, 4);
    for (int s = 0; s + 1 < 4; ++s) {
      const Plan a(random.graph, {random.loss}, cut, s), b(random.graph, {random.loss}, cut, s + 1);
      EXPECT_EQ(a.send_values().names, b.receive_values().names);
      EXPECT_EQ(a.send_values().bytes, b.receive_values().bytes);
      EXPECT_EQ(a.receive_gradients().names, b.send_gradients().names);
      EXPECT_EQ(a.receive_gradients().bytes, b.send_gradients().bytes);
    }
  }
}

}  // namespace
}  // namespace trireme::test
