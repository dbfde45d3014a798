// What ranks compare of the models that they have traced: everything that must be alike, nothing
// that tensor ranks may have of their own.
#include "runtime/train/trainer_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/models/transformer.h"
#include "trireme/nn/nn.h"

namespace trireme {

bool operator==(const RankFact& a, const RankFact& b) {
  return a.name == b.name && a.value == b.value;
}
void PrintTo(const RankFact& fact, std::ostream* out) { *out << fact.name << ": " << fact.value; }

}  // namespace trireme

namespace trireme::train {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

PlannedModel traced(const Forward& forward, int tensor_rank = 0, int tensor_size = 1,
                    int stages = 1) {
  PlannedModel model;
  model.graph = std::make_unique<Graph>(tensor_rank, tensor_size);
  model.results = {forward(*model.graph)};
  model.cut = cut_stages(*model.graph, model.results, stages);
  return model;
}

std::vector<RankFact> facts(const Forward& forward, int tensor_rank = 0, int tensor_size = 1,
                            int stages = 1) {
  return facts_of("model", traced(forward, tensor_rank, tensor_size, stages));
}

/// A small model, of which each test changes one thing.
struct Small {
  Index width = 4;
  std::string parameter = "w";
  Init init = normal(0.1f);
  Shard shard = replicated();
  Index rows = 2;
  int blocks = 2, adds = 1;
  bool recompute = false, swapped = false;

  Value operator()(Graph& g) const {
    Value x = g.input("x", {rows, width});
    const Value first = x;
    for (int i = 0; i < blocks; ++i)
      x = g.block("block", i, [&] {
        const Value w = g.parameter(parameter, {width, width}, shard, init);
        Value h = x;
        const auto work = [&] {
          h = linear(h, w);
          for (int k = 0; k < adds; ++k) h = swapped ? first + h : h + first;
          return h;
        };
        return recompute ? g.recompute(work) : work();
      });
    return squared_error(x, g.input("y", {rows, width}));
  }
};

TEST(ModelFacts, EverythingThatMustBeAlikeShows) {
  const std::vector<RankFact> even = facts(Small{});
  EXPECT_EQ(facts(Small{}), even);
  const std::pair<const char*, Small> others[] = {
      {"number of blocks", {.blocks = 3}},
      {"input x", {.rows = 3}},
      {"input x", {.width = 8}},
      {"parameter block.0.v", {.parameter = "v"}},
      {"parameter block.0.w", {.init = normal(0.2f)}},
      {"parameter block.0.w", {.init = uniform(0.1f)}},
      {"number of ops", {.adds = 2}},
      {"op 0", {.recompute = true}},
      {"op 1", {.swapped = true}},
  };
  for (const auto& [first, other] : others) {
    const std::vector<RankFact> uneven = facts(other);
    const auto found = std::mismatch(uneven.begin(), uneven.end(), even.begin(), even.end()).first;
    ASSERT_NE(found, uneven.end()) << first;
    EXPECT_EQ(found->name, std::string("model: ") + first);
  }
  EXPECT_NE(facts(Small{}, 0, 1, 2), even) << "another cut";
}

TEST(ModelFacts, TensorRanksOfATransformerHaveTheSame) {
  TransformerConfig config;
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_attention_heads = 4;
  config.num_query_groups = 4;
  config.seq_length = 16;
  config.vocab_size = 61;  // padded, and the last ranks hold less of it
  for (const auto parallel : {SequenceParallel::off, SequenceParallel::on}) {
    config.sequence_parallel = parallel;
    const Forward forward = [&](Graph& g) { return build_transformer_loss(g, config, 2); };
    for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(facts(forward, rank, 4), facts(forward, 0, 4));
  }
}

/// Gives each tensor rank another number of rows.
class Share final : public Op {
 public:
  explicit Share(Index rows, Placement placement) : rows_(rows), placement_(placement) {}
  std::string name() const override { return "share"; }
  Outputs infer(const Specs& in) const override { return {Output(Spec{rows_, in[0].shape[1]})}; }
  Placement placement(const Placements&, const std::vector<bool>&) const override {
    return placement_;
  }
  void forward(Exec&) const override {}
  void backward(Exec&) const override {}

 private:
  Index rows_;
  Placement placement_;
};

TEST(ModelFacts, UnequalSharesAreNoDifferenceButUnequalWholesAre) {
  const auto share = [](Placement placement) {
    return [placement](Graph& g) {
      const Value x = g.input("x", {8, 4});
      return g.apply(std::make_shared<Share>(3 + 2 * g.tensor_rank(), placement), {x}).front();
    };
  };
  EXPECT_EQ(facts(share(Placement::sharded), 0, 2), facts(share(Placement::sharded), 1, 2));
  EXPECT_NE(facts(share(Placement::replicated), 0, 2), facts(share(Placement::replicated), 1, 2));
}

TEST(ModelFacts, ParametersStandInTheirLogicalShape) {
  const Forward forward = [](Graph& g) {
    const Value h = column_linear(g.input("x", {2, 8}), "up", 16);
    return squared_error(row_linear(h, "down", 8), g.input("y", {2, 8}));
  };
  EXPECT_THAT(
      facts(forward, 1, 2),
      Contains(testing::AllOf(Field(&RankFact::name, "model: parameter up.weight"),
                              Field(&RankFact::value, HasSubstr("(16, 8), sharded along dim 0")))));
}

}  // namespace
}  // namespace trireme::train
