// Tracing: names, parameters, and what it refuses, with messages that say where and what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/compile/plan.h"
#include "runtime/graph/constants.h"
#include "tests/graph/toy_ops.h"
#include "tests/support/message_of.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

Value product(Value x, Index out, const std::string& name = "weight") {
  const Value w = x.graph().parameter(name, {out, x.shape()[1]}, replicated(), normal(1));
  return x.graph().apply(std::make_shared<Linear>(), {x, w}).front();
}

/// What a matrix product along a split dim gives.
class AsTerm final : public Op {
 public:
  std::string name() const override { return "as_term"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  Placement placement(const Placements&, const std::vector<bool>&) const override {
    return Placement::partial;
  }
  void forward(Exec&) const override {}
  void backward(Exec&) const override {}
};

class Thrower final : public Op {
 public:
  Thrower(std::string called, void (*inferring)()) : name_(std::move(called)), infer_(inferring) {}
  std::string name() const override { return name_; }
  Outputs infer(const Specs& in) const override {
    infer_();
    return {in[0]};
  }
  void forward(Exec&) const override {}
  void backward(Exec&) const override {}

 private:
  std::string name_;
  void (*infer_)();
};

TEST(Trace, NamesAreScopesAndOpsAndUnique) {
  Graph g;
  const Value x = g.input("x", {2, 4});
  g.block("block", 3, [&] {
    g.scope("mlp", [&] {
      product(x, 4);
      product(x, 4);
    });
    g.recompute([&] { product(x, 4); });
  });
  product(x, 4);
  ASSERT_EQ(g.nodes().size(), 4u);
  EXPECT_EQ(g.nodes()[0].name, "block.3/mlp/linear");
  EXPECT_EQ(g.nodes()[1].name, "block.3/mlp/linear#2");
  EXPECT_EQ(g.nodes()[2].name, "block.3/linear");
  EXPECT_EQ(g.nodes()[3].name, "linear");
  ASSERT_EQ(g.parameters().size(), 3u);
  EXPECT_EQ(g.parameters()[0].name(), "block.3.mlp.weight");
  EXPECT_EQ(g.parameters()[1].name(), "block.3.weight");
  EXPECT_EQ(g.nodes()[2].recompute, 0);
  EXPECT_EQ(g.nodes()[2].block, 0);
  EXPECT_EQ(g.nodes()[3].block, -1);
  EXPECT_EQ(g.nodes()[3].recompute, -1);
}

TEST(Trace, TheSameNameIsTheSameParameter) {
  Graph g;
  const Value a = g.parameter("w", {4, 4}, replicated(), normal(1));
  EXPECT_EQ(a.id(), g.parameter("w", {4, 4}, replicated(), normal(1)).id());
  EXPECT_EQ(g.parameters().size(), 1u);
}

TEST(Trace, ShardsOfAPaddedParameterHoldTheirBoxOfTheLogicalTensor) {
  for (int rank = 0; rank < 4; ++rank) {
    Graph g(rank, 4);
    g.parameter("w", {37, 3}, shard_padded(0), normal(1));
    const ParameterPart& part = g.parameters()[0].parts[0];
    EXPECT_EQ(part.local, (Shape{16, 3})) << "10 of each rank, padded to a multiple of 8";
    EXPECT_EQ(part.box.begin[0], std::min(37, 16 * rank));
    EXPECT_EQ(part.box.size[0], (rank == 2 ? 5 : rank == 3 ? 0 : 16));
    EXPECT_EQ(g.parameters()[0].placement, Placement::sharded);
  }
}

TEST(Trace, PartsLieSideBySide) {
  Graph g(1, 2);
  const Value w =
      g.parameters({{"query", {8, 6}, shard(0), normal(1)}, {"key", {4, 6}, shard(0), normal(1)}});
  EXPECT_EQ(w.shape(), (Shape{6, 6}));
  const Parameter& p = g.parameters()[0];
  ASSERT_EQ(p.parts.size(), 2u);
  EXPECT_EQ(p.parts[1].offset, 4 * 6);
  EXPECT_EQ(p.parts[1].box.begin[0], 2);
  EXPECT_TRUE(p.decays());
  g.parameter("bias", {8}, shard(0), zeros());
  EXPECT_FALSE(g.parameters()[1].decays());
}

struct Refusal {
  const char* what;
  std::function<void(Graph&)> trace;
  std::vector<const char*> says;
};

TEST(Trace, RefusesMistakesWithAMessageThatNamesThem) {
  const auto x = [](Graph& g) { return g.input("x", {2, 6}); };
  const auto enter = [](Value v) { return v.apply<Enter>(); };
  const auto sharded = [](Graph& g) { return g.parameter("w", {4, 6}, shard(0), normal(1)); };
  const auto use = [](Value v, Value w) {
    return v.graph().apply(std::make_shared<Linear>(), {v, w}).front();
  };
  const std::vector<Refusal> refusals = {
      {"shapes",
       [&](Graph& g) {
         g.scope("mlp", [&] { use(x(g), g.parameter("w", {4, 5}, replicated(), zeros())); });
       },
       {"op 'linear' in scope 'mlp'", "inputs: 'x' f32 (2, 6), 'mlp.w' f32 (4, 5);", "(out, in)"}},
      {"strided",
       [&](Graph& g) { x(g).apply<Slice>(1, 0, 2).apply<Tanh>(); },
       {"'tanh'", "input 0 is strided", "contiguous()", "f32 (2, 2) strided (6, 1)"}},
      {"slice",
       [&](Graph& g) { x(g).apply<Slice>(1, 4, 7); },
       {"slice [4, 7) along dim 1", "f32 (2, 6)"}},
      {"reshape",
       [&](Graph& g) { x(g).apply<Reshape>(Shape{5}); },
       {"(12 elements)", "(5 elements)"}},
      {"empty value", [&](Graph&) { Value().spec(); }, {"empty Value"}},
      {"an op on an empty value",
       [&](Graph&) { apply<Tanh>({Value()}); },
       {"op 'tanh' was given an empty Value as input 0"}},
      {"an op on a value and an empty one",
       [&](Graph& g) { g.scope("mlp", [&] {
                         apply<Mul>({x(g), Value()});
                       }); },
       {"op 'mul' in scope 'mlp' was given an empty Value as input 1"}},
      {"an op on nothing", [&](Graph&) { apply<Tanh>({}); }, {"op 'tanh' was given no input"}},
      {"another graph",
       [&](Graph& g) {
         Graph other;
         g.apply(std::make_shared<Tanh>(), {x(other)});
       },
       {"belongs to another graph"}},
      {"an empty dim",
       [](Graph& g) {
         g.input("z", {2, 0});
       },
       {"input 'z' (2, 0) has an empty dim"}},
      {"a negative dim",
       [](Graph& g) {
         g.input("z", {-1, 2});
       },
       {"input 'z' (-1, 2) has an empty"}},
      {"more than memory",
       [](Graph& g) {
         g.input("z", {4, Index{1} << 61});
       },
       {"input 'z' (4, 2305843009213693952) is larger than any memory"}},
      {"an op without a name",
       [&](Graph& g) { g.scope("mlp", [&] { x(g).apply<Thrower>("", [] {}); }); },
       {"an op in scope 'mlp' has an empty name"}},
      {"another exception",
       [&](Graph& g) { x(g).apply<Thrower>("odd", [] { throw std::runtime_error("shapes"); }); },
       {"op 'odd' in the model itself: shapes", "f32 (2, 6)"}},
      {"no exception at all",
       [&](Graph& g) { x(g).apply<Thrower>("odd", [] { throw 42; }); },
       {"op 'odd' in the model itself: an exception of type int, which is no std::exception"}},
      {"two inputs", [&](Graph& g) { x(g), x(g); }, {"two inputs are named 'x'"}},
      {"nested blocks",
       [&](Graph& g) { g.block("a", 0, [&] { g.block("b", 1, [] {}); }); },
       {"block 'b.1' inside block 'a.0'", "scope()"}},
      {"tied",
       [&](Graph& g) {
         sharded(g);
         g.parameter("w", {5, 6}, shard(0), normal(1));
       },
       {"'w' (5, 6) exists already", "(4, 6)", "declared alike",
        "; or give the second another name"}},
      {"indivisible",
       [&](Graph&) {
         Graph g(0, 4);
         g.parameter("w", {6, 2}, shard(0), zeros());
       },
       {"'w' (6, 2)", "dim 0 (6)", "does not divide by --tensor-model-parallel-size 4"}},
      {"no such dim",
       [&](Graph& g) {
         g.parameter("w", {6, 2}, shard(2), zeros());
       },
       {"along dim 2"}},
      {"not side by side",
       [&](Graph& g) {
         g.parameters({{"a", {2, 6}, replicated(), zeros()}, {"b", {2, 5}, replicated(), zeros()}});
       },
       {"'a' (2, 6)", "'b' (2, 5)", "side by side"}},
      {"missing entry",
       [&](Graph& g) { g.scope("mlp", [&] { use(x(g), sharded(g)); }); },
       {"op 'linear' in scope 'mlp'", "input 0 is replicated beside sharded",
        "enter the tensor axis", "replicated, sharded"}},
      {"missing exit",
       [&](Graph& g) { x(g).apply<AsTerm>().apply<Tanh>(); },
       {"one term of a sum", "has to leave"}},
      {"entered twice", [&](Graph& g) { enter(enter(x(g))); }, {"only replicated values enter"}},
      {"replicated activation beside sharded ones",
       [&](Graph& g) {
         const Value v = x(g);
         g.apply(std::make_shared<Mul>(),
                 {v, use(enter(v), g.parameter("w", {6, 6}, shard(0), zeros()))});
       },
       {"input 0 is replicated beside sharded"}},
      {"one parameter, two kinds of gradient",
       [&](Graph& g) {
         const Value v = x(g), w = g.parameter("w", {6, 6}, replicated(), normal(1));
         use(v, w);
         use(enter(v), w);
       },
       {"parameter 'w'", "complete in part, partial in part", "'linear'"}},
      {"loss that is sharded",
       [&](Graph& g) {
         const Value v = enter(x(g));
         const Value y = use(v, sharded(g));
         const Value loss = g.apply(std::make_shared<SquaredError>(), {y, y}).front();
         Plan(g, {loss}, cut_stages(g, {loss}, 1), 0);
       },
       {"the loss 'squared_error' is sharded"}},
      {"loss of many numbers",
       [&](Graph& g) {
         const Value y = x(g).apply<Tanh>();
         Plan(g, {y}, cut_stages(g, {y}, 1), 0);
       },
       {"the loss has to be one f64 or f32 number without dims", "(2, 6)"}},
      {"loss of one number with dims, as a micro-batch of one sample gives",
       [&](Graph& g) {
         const Value y = g.input("y", {1, 1}).apply<Tanh>();
         Plan(g, {y}, cut_stages(g, {y}, 1), 0);
       },
       {"the loss has to be one f64 or f32 number without dims", "'tanh' is f32 (1, 1)", "sum it"}},
      {"result that is an input",
       [&](Graph& g) {
         const Value v = x(g);
         cut_stages(g, {v}, 1);
       },
       {"'x' is not computed by any op"}},
      {"too few blocks",
       [&](Graph& g) {
         Value y = x(g);
         for (int i = 0; i < 2; ++i) y = g.block("block", i, [&] { return y.apply<Tanh>(); });
         cut_stages(g, {y}, 3);
       },
       {"2 blocks", "3 pipeline stages", "at most 2"}},
      {"speeds",
       [&](Graph& g) {
         cut_stages(g, {x(g).apply<Tanh>()}, 1, {1, 2});
       },
       {"2 speeds given for 1 stages"}},
      {"tensor rank", [&](Graph&) { Graph g(2, 2); }, {"tensor rank 2", "2 ranks"}},
  };
  for (const Refusal& refusal : refusals) {
    Graph g;
    const std::string said = message_of([&] { refusal.trace(g); });
    for (const char* part : refusal.says) EXPECT_THAT(said, HasSubstr(part)) << refusal.what;
  }
}

TEST(Trace, AnOpThatDoesNotSayItWorksOnAGpuIsRefusedByNameThere) {
  Graph g;
  g.plan_for(gpu_traits("H100-SXM"));
  const Value x = g.input("x", {3});
  EXPECT_THAT(message_of([&] { g.scope("mlp", [&] { x.apply<Tanh>(); }); }),
              testing::AllOf(HasSubstr("op 'tanh' in scope 'mlp': the model runs on cuda"),
                             HasSubstr("Op::works_on"), HasSubstr("'x' f32 (3)")));
  EXPECT_NO_THROW(x.apply<Slice>(0, Index{0}, Index{2}));  // a view is never run
}

class Numbers final : public Constant {
 public:
  explicit Numbers(Index bytes) : bytes_(bytes) {}
  Index bytes() const override { return bytes_; }
  void write(std::byte*) const override { throw Error("a trace does not write constants"); }

 private:
  Index bytes_;
};

TEST(Trace, APlacementHasAStateForEachRole) {
  using State = Placement::State;
  EXPECT_EQ(Placement(), Placement::replicated);
  EXPECT_EQ(Placement().with(Role::tensor, State::sharded), Placement::sharded);
  EXPECT_EQ(Placement::partial.along(Role::tensor), State::partial);
  EXPECT_EQ(str(Placement::partial_gradient), "partial_gradient");
  EXPECT_EQ(message_of([] { (void)Placement().along(Role::batch); }),
            "values have no placement along batch");
}

TEST(Trace, OnlyAParameterThatIsThereGetsAGroup) {
  Graph g;
  g.parameter("a", {2}, replicated(), zeros());
  g.parameter("b", {2}, replicated(), zeros());
  g.assign(1, {.trained = false, .decay_dims = 1});
  EXPECT_FALSE(g.parameters()[0].frozen());
  EXPECT_FALSE(g.parameters()[0].decays());
  EXPECT_TRUE(g.parameters()[1].frozen());
  EXPECT_TRUE(g.parameters()[1].decays());
  for (const int id : {-1, 2})
    EXPECT_EQ(message_of([&] { g.assign(id, {}); }),
              str("parameter ", id, " has no group: the graph has 2, counted from 0"));
}

TEST(Trace, AConstantHasOneNumberAndOnePlace) {
  Graph g;
  const auto a = std::make_shared<const Numbers>(100), b = std::make_shared<const Numbers>(8);
  EXPECT_EQ(g.constant(a), 0);
  EXPECT_EQ(g.constant(b), 1);
  EXPECT_EQ(g.constant(a), 0);
  EXPECT_THAT(constant_offsets(g), testing::ElementsAre(0, 128, 192));
  EXPECT_THROW(g.constant(nullptr), Error);
}

}  // namespace
}  // namespace trireme::test
