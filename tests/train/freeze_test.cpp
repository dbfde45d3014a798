// --freeze on ranks as threads: frozen parts keep their bits, all others are trained as ever, on
// every layout; and what a checkpoint of such a run is good for.
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/models/transformer.h"

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"
#include "tests/train/random_tokens.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

using test::RandomTokens;
using testing::HasSubstr;
using testing::SizeIs;
using Tensors = std::map<std::string, std::vector<float>>;

constexpr Index length = 8;

/// Tied embeddings, 4 blocks.
Model tied_model(Index batch, bool parallel) {
  TransformerConfig config = preset("tiny");
  config.num_layers = 4;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.seq_length = config.max_position_embeddings = length;
  config.vocab_size = RandomTokens::vocabulary;
  config.sequence_parallel = parallel ? SequenceParallel::on : SequenceParallel::off;
  return Model([=](Graph& g) { return build_transformer_loss(g, config, batch); });
}

/// RMS norms, also of queries and keys, swiglu, groups of queries, and a head of its own.
Model untied_model(Index batch, bool parallel) {
  TransformerConfig config = preset("qwen3-0.6b");
  config.num_layers = 4;
  config.hidden_size = 16;
  config.num_attention_heads = 4;
  config.num_query_groups = 2;
  config.kv_channels = 8;
  config.ffn_hidden_size = 24;
  config.seq_length = length;
  config.vocab_size = RandomTokens::vocabulary;
  config.tie_embeddings = false;
  config.sequence_parallel = parallel ? SequenceParallel::on : SequenceParallel::off;
  return Model([=](Graph& g) { return build_transformer_loss(g, config, batch); });
}

/// The bottom of the model but for positions, and weights between trained ones.
const std::vector<std::string> frozen_parts = {"embedding", "block.0-1", "block.2.mlp"};
bool is_frozen(const std::string& tensor) {
  return tensor.starts_with("embedding.") || tensor.starts_with("block.0.") ||
         tensor.starts_with("block.1.") || tensor.starts_with("block.2.mlp.");
}

class Freeze : public testing::Test {
 protected:
  Options options(const Layout& layout, Index steps, std::vector<std::string> freeze) {
    Options o = options_for(layout);
    o.freeze = std::move(freeze);
    o.train_iters = steps;
    o.learning_rate.decay = LearningRateOptions::Decay::constant;
    o.optimizer.kind = optimizer_;
    o.optimizer.weight_decay = 0.1;
    o.check_replicas = layout.data > 1 ? 1 : 0;
    o.verify_step = 2;
    return o;
  }
  /// fit(); returns what --dump-tensors and --metrics wrote.
  test::TrainingRun train(const Layout& layout, Options o) {
    const std::string prefix = folder_ / str("run", runs_++);
    o.dump_tensors = prefix;
    o.metrics = prefix + ".jsonl";
    on_ranks(layout, o, [&](Context& context) {
      Trainer trainer(context, model_(layout.micro_batch, layout.tensor > 1));
      RandomTokens data(length);
      trainer.fit(data);
    });
    if (o.train_iters == 0) return {{}, {}, test::read_logical_tensors(prefix + ".parameters")};
    return test::read_training_run(prefix);
  }
  test::TrainingRun train(const Layout& layout, Index steps, std::vector<std::string> freeze) {
    return train(layout, options(layout, steps, std::move(freeze)));
  }

  /// Frozen parts keep their bits on each layout, and all others have the gradients of a run that
  /// trains all.
  void expect_only_the_rest_is_trained(const std::vector<Layout>& layouts) {
    const test::TrainingRun alone = train({}, 3, frozen_parts);
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(testing::PrintToString(layout));
      const Tensors initial = train(layout, 0, frozen_parts).parameters.tensors;
      const test::TrainingRun run = train(layout, 3, frozen_parts);
      const Tensors gradients = train(layout, 1, {}).gradients.tensors;
      int frozen = 0;
      for (const auto& [name, values] : run.parameters.tensors) {
        frozen += is_frozen(name) ? 1 : 0;
        if (is_frozen(name)) {
          EXPECT_EQ(values, initial.at(name)) << name;
          EXPECT_EQ(run.gradients.tensors.count(name), 0u) << name;
        } else {
          EXPECT_NE(values, initial.at(name)) << name;
          EXPECT_EQ(run.gradients.tensors.at(name), gradients.at(name)) << name;
        }
      }
      EXPECT_GT(frozen, 10);
      EXPECT_THAT(run.gradients.tensors,
                  SizeIs(run.parameters.tensors.size() - static_cast<std::size_t>(frozen)));
      const test::Difference difference = compare(alone, run);
      EXPECT_TRUE(layout.bf16 || within_limits(difference)) << describe(difference);
    }
  }

  Model (*model_)(Index batch, bool parallel) = tied_model;
  OptimizerOptions::Kind optimizer_ = OptimizerOptions::Kind::adamw;
  ScratchDirectory folder_;
  int runs_ = 0;
};

TEST_F(Freeze, KeepsBitsOnEveryLayoutAndGivesTheSameGradientsToTheRest) {
  expect_only_the_rest_is_trained({{},
                                   {.data = 2, .zero = true},
                                   {.pipeline = 2, .micro_batch = 2},
                                   {.tensor = 2},
                                   {.data = 2, .pipeline = 2, .tensor = 2, .zero = true},
                                   {.data = 2, .bf16 = true},
                                   {.data = 2, .pipeline = 2, .zero = true, .bf16 = true},
                                   {.pipeline = 2, .chunks = 2, .v = true}});
}

TEST_F(Freeze, OfAQwenIsThatOfAGpt) {
  model_ = untied_model;
  // AdamW makes much of rounding errors in small gradients.
  optimizer_ = OptimizerOptions::Kind::sgd;
  expect_only_the_rest_is_trained({{.data = 2, .tensor = 2, .zero = true},
                                   {.data = 2, .pipeline = 2, .zero = true, .bf16 = true}});
}

TEST_F(Freeze, AStageWithNothingToTrainTakesPartInEachStep) {
  const std::vector<std::string> bottom = {"embedding", "position", "block.0-2"};
  const Layout layout{.data = 2, .pipeline = 2, .zero = true};
  const test::TrainingRun alone = train({}, 3, bottom), run = train(layout, 3, bottom);
  const test::Difference difference = compare(alone, run);
  EXPECT_TRUE(within_limits(difference)) << describe(difference);
}

TEST_F(Freeze, TheNormOfGradientsIsThatOfWhatIsTrained) {
  const test::TrainingRun run = train({}, 1, frozen_parts);
  double sum = 0;
  for (const auto& [name, values] : run.gradients.tensors)
    for (const float value : values) sum += static_cast<double>(value) * value;
  EXPECT_NEAR(run.steps.front().grad_norm, std::sqrt(sum), 1e-6 * std::sqrt(sum));
}

TEST_F(Freeze, ANameOfNoPartStopsAllRanksBeforeAnythingIsAllocated) {
  for (const char* name : {"blok", "block.7"}) {
    const std::string message = message_of([&] { train({.tensor = 2}, 1, {name}); });
    EXPECT_THAT(message, HasSubstr(str("--freeze ", name, ": this model has no ", name)));
  }
}

/// Saved at step 2 and resumed to step 4, in bf16 and over all axes.
TEST_F(Freeze, AResumedRunIsTheUninterruptedOneAndOtherLayoutsLoadIt) {
  for (const Layout& layout : {Layout{}, Layout{.data = 2, .bf16 = true},
                               Layout{.data = 2, .tensor = 2, .zero = true, .bf16 = true}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const std::string run = folder_ / str("saved", runs_);
    const test::TrainingRun straight = train(layout, 4, frozen_parts);
    Options first = options(layout, 2, frozen_parts);
    first.checkpoint.save = run;
    train(layout, first);
    Options second = options(layout, 4, frozen_parts);
    second.checkpoint.load = run;
    second.checkpoint.save = run;
    const std::string prefix = folder_ / "resumed";
    second.dump_tensors = prefix;
    on_ranks(layout, second, [&](Context& context) {
      Trainer trainer(context, tied_model(1, layout.tensor > 1));
      RandomTokens data(length);
      trainer.fit(data);
    });
    EXPECT_EQ(test::read_logical_tensors(prefix + ".parameters").tensors,
              straight.parameters.tensors);
    const Layout other{.pipeline = 2, .bf16 = layout.bf16};
    Options third = options(other, 0, frozen_parts);
    third.train_iters = 4;  // they are done
    third.checkpoint.load = run;
    third.dump_tensors = prefix;
    on_ranks(other, third, [&](Context& context) {
      Trainer trainer(context, tied_model(1, false));
      RandomTokens data(length);
      trainer.fit(data);
    });
    EXPECT_EQ(test::read_logical_tensors(prefix + ".parameters").tensors,
              straight.parameters.tensors);
  }
}

/// From all trained to some frozen; the reverse needs a fresh optimizer.
TEST_F(Freeze, MayBeGivenToARunThatHadNoneAndTakenAwayOnlyWithFreshMoments) {
  for (const bool bf16 : {false, true}) {
    const Layout layout{.bf16 = bf16};
    const std::string run = folder_ / str("saved", runs_);
    const auto go_on = [&](Index steps, const std::vector<std::string>& freeze,
                           bool moments = true) {
      Options o = options(layout, steps, freeze);
      o.checkpoint.load = o.checkpoint.save = run;
      o.checkpoint.load_optimizer = moments;
      const std::string prefix = folder_ / str("run", runs_++);
      o.dump_tensors = prefix;
      on_ranks(layout, o, [&](Context& context) {
        Trainer trainer(context, tied_model(1, false));
        RandomTokens data(length);
        trainer.fit(data);
      });
      return test::read_logical_tensors(prefix + ".parameters").tensors;
    };
    const Tensors all = go_on(2, {}), some = go_on(3, frozen_parts);
    for (const auto& [name, values] : some) {
      if (!is_frozen(name)) {
        EXPECT_NE(values, all.at(name)) << name;
        continue;
      }
      ASSERT_EQ(values.size(), all.at(name).size());
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], bf16 ? to_float(to_bf16(all.at(name)[i])) : all.at(name)[i]) << name;
    }
    EXPECT_THAT(message_of([&] { go_on(4, {}); }),
                HasSubstr("the checkpoint has no optimizer state of block.0."));
    const Tensors thawed = go_on(4, {}, false);
    for (const auto& [name, values] : thawed) EXPECT_NE(values, some.at(name)) << name;
  }
}

}  // namespace
}  // namespace trireme
