// Which parameters belong to which of TrainingSpec::groups, how a pattern of none is refused, and
// what a plan is without those that are not trained.
#include "runtime/rank_plan/parameter_groups.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"

#include "runtime/rank_plan/planned_training.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Of 12 blocks.
TransformerConfig gpt(bool tied = true) {
  TransformerConfig config = preset("tiny");
  config.num_layers = 12;
  config.hidden_size = 32;
  config.seq_length = 16;
  config.vocab_size = 61;
  config.tie_embeddings = tied;
  return config;
}

TrainingSpec frozen_spec(const std::vector<std::string>& patterns) {
  TrainingSpec spec;
  for (const std::string& pattern : patterns)
    spec.groups.push_back({.pattern = pattern, .trained = false});
  return spec;
}

/// The frozen tensors, shortened to what `depth` words say.
std::set<std::string> frozen(const std::vector<std::string>& names, std::size_t depth,
                             bool tied = true) {
  Graph g;
  build_transformer_loss(g, gpt(tied), 1);
  assign_groups(g, frozen_spec(names));
  std::set<std::string> all;
  for (const Parameter& parameter : g.parameters())
    for (const ParameterPart& part : parameter.parts) {
      std::size_t end = 0;
      for (std::size_t word = 0; word < depth && end != std::string::npos; ++word)
        end = part.name.find('.', end + (word > 0 ? 1 : 0));
      if (parameter.frozen()) all.insert(part.name.substr(0, end));
    }
  return all;
}

/// Per parameter: the pattern of its group, whether it is trained, and whether it decays.
std::string groups(const std::vector<ParameterGroup>& all, const std::string& parameter) {
  Graph g;
  build_transformer_loss(g, gpt(), 1);
  TrainingSpec spec;
  spec.groups = all;
  assign_groups(g, spec);
  for (const Parameter& p : g.parameters())
    if (p.name() == parameter)
      return str(p.group.pattern, p.frozen() ? " frozen" : " trained", p.decays() ? " decays" : "");
  return "no such parameter";
}

TEST(ParameterGroups, AParameterBelongsToTheFirstThatMatches) {
  const std::vector<ParameterGroup> all = {{.pattern = "block.3.mlp", .decay_dims = 1},
                                           {.pattern = "block.0-3", .trained = false},
                                           {.pattern = "block", .decay_dims = 3}};
  for (const auto& [parameter, expected] :
       std::map<std::string, std::string>{{"block.3.mlp.up.weight", "block.3.mlp trained decays"},
                                          {"block.3.mlp.up.bias", "block.3.mlp trained decays"},
                                          {"block.2.mlp.up.weight", "block.0-3 frozen decays"},
                                          {"block.4.mlp.up.weight", "block trained"},
                                          {"embedding.weight", " trained decays"},
                                          {"norm.weight", " trained"}})
    EXPECT_EQ(groups(all, parameter), expected) << parameter;
}

TEST(Frozen, NamesWholePartsAndRangesOfBlocks) {
  EXPECT_THAT(frozen({}, 9), ElementsAre());
  EXPECT_THAT(frozen({"embedding"}, 9), ElementsAre("embedding.weight"));
  EXPECT_THAT(frozen({"embedding", "block.9-11"}, 2),
              ElementsAre("block.10", "block.11", "block.9", "embedding.weight"));
  EXPECT_THAT(frozen({"block.1"}, 2), ElementsAre("block.1"));  // not 10 and 11
  EXPECT_THAT(frozen({"block.0-1.mlp"}, 3), ElementsAre("block.0.mlp", "block.1.mlp"));
}

std::string refusal(const std::vector<std::string>& names) {
  return message_of([&] { frozen(names, 1); });
}

TEST(Frozen, ANameOfNoPartIsRefusedWithThePartsThereAre) {
  EXPECT_EQ(refusal({"blok.3"}),
            "--freeze blok.3: this model has no blok; its parts are embedding, "
            "position, block.0-11, norm");
  EXPECT_EQ(refusal({"embedding", "block.3-12"}),
            "--freeze block.3-12: this model has no block.12; its parts are embedding, "
            "position, block.0-11, norm");
  EXPECT_THAT(refusal({"block.3.attn"}), HasSubstr("this model has no block.3.attn; its parts "
                                                   "there are block.3."));
  EXPECT_EQ(refusal({"block.5-3"}), "--freeze block.5-3: 5-3 begins above its end");
  EXPECT_THAT(refusal({"head"}), HasSubstr("has no head"));  // tied: it is the embedding
  EXPECT_THAT(frozen({"head"}, 1, false), ElementsAre("head"));
  EXPECT_THAT(refusal({""}), HasSubstr("has no ;"));
}

TEST(Frozen, AllPartsAreRefused) {
  EXPECT_EQ(refusal({"embedding", "position", "block", "norm"}),
            "--freeze embedding,position,block,norm: nothing is left to train; the "
            "parts of this model are embedding, position, block.0-11, norm");
}

TEST(Frozen, TensorsThatLieSideBySideAreFrozenTogether) {
  EXPECT_EQ(refusal({"block.2.attention.query"}),
            "--freeze block.2.attention.query: block.2.attention.query.weight lies in "
            "one piece of memory with block.2.attention.key.weight, which only a part that has "
            "both can freeze");
}

TEST(Frozen, IsDescribedWithWhatIsTied) {
  Graph g;
  build_transformer_loss(g, gpt(), 1);
  EXPECT_EQ(describe_frozen(g), "");
  assign_groups(g, frozen_spec({"embedding", "position", "block.0", "norm"}));
  EXPECT_THAT(describe_frozen(g), testing::MatchesRegex("20 of [0-9]+ tensors, 0.0 of 0.2 million "
                                                        "parameters; wherever they are used: "
                                                        "embedding.weight"));
}

double backward_flops(const PlannedTraining& plan) {
  double sum = 0;
  for (const Plan& chunk : plan.train.model().chunks)
    for (const StepWork& work : chunk.work())
      if (work.phase == StepWork::Phase::backward) sum += work.flops;
  return sum;
}

Index count(const PlannedTraining& plan, StepWork::Phase phase) {
  Index steps = 0;
  for (const StepWork& work : plan.train.model().chunks.front().work())
    steps += work.phase == phase && !work.op.empty() ? 1 : 0;
  return steps;
}

TEST(Frozen, BackwardStopsWhereNothingBelowNeedsAGradient) {
  const Model model([](Graph& g) { return build_transformer_loss(g, gpt(), 1); });
  const auto plan = [&](const std::vector<std::string>& names) {
    return PlannedTraining(model, frozen_spec(names), 0, cpu_traits());
  };
  const PlannedTraining all = plan({}), mlp = plan({"block.0-11.mlp"}),
                        bottom = plan({"embedding", "position", "block.0-5"}),
                        top = plan({"block.6-11"});
  constexpr auto backward = StepWork::Phase::backward;
  EXPECT_EQ(count(bottom, StepWork::Phase::forward), count(all, StepWork::Phase::forward));
  EXPECT_LT(count(bottom, backward), 0.6 * static_cast<double>(count(all, backward)));
  EXPECT_LT(backward_flops(bottom), 0.6 * backward_flops(all));
  EXPECT_LT(backward_flops(top), backward_flops(all));     // no products for weights there
  EXPECT_GT(backward_flops(top), backward_flops(bottom));  // but for what lies below
  const auto flops = [](const PlannedTraining& one) { return one.train.model().flops(); };
  EXPECT_LT(flops(top), flops(all));
  EXPECT_LT(flops(bottom), flops(top));
  EXPECT_LT(bottom.memory_need().activations, all.memory_need().activations);
  EXPECT_LT(mlp.memory_need().activations, all.memory_need().activations);  // no inputs are kept
  EXPECT_EQ(bottom.memory_need().gradients, bottom.flat.trained_count() * 4);
  EXPECT_LT(bottom.memory_need().optimizer, all.memory_need().optimizer);
}

TEST(Frozen, AStageOfFrozenPartsOnlySendsNoGradients) {
  const Model model([](Graph& g) { return build_transformer_loss(g, gpt(false), 1); });
  TrainingSpec spec = frozen_spec({"embedding", "position", "block.0-8"});
  spec.mesh = MeshShape(1, 4, 1);
  const PlannedTraining first(model, spec, 0, cpu_traits()), last(model, spec, 3, cpu_traits());
  EXPECT_EQ(first.flat.trained_count(), 0);
  EXPECT_EQ(first.memory_need().gradients, 0);
  EXPECT_EQ(first.train.model().chunks.front().receive_gradients().bytes, 0);
  EXPECT_GT(first.train.model().chunks.front().send_values().bytes, 0);
  EXPECT_GT(last.flat.trained_count(), 0);
}

}  // namespace
}  // namespace trireme
