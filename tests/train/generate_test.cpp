// Generated tokens are the same on every layout.
#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/models/transformer.h"

#include "tests/support/message_of.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

/// Text of 40 tokens from an untrained transformer.
std::vector<std::int32_t> generate(const Layout& layout, const GenerateOptions& asked) {
  TransformerConfig config;
  config.num_layers = 4;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.seq_length = 12;
  config.vocab_size = 31;
  config.init_std = 0.5f;
  const Options options = options_for(layout);
  std::vector<std::int32_t> text;
  on_ranks(layout, options, [&](Context& context) {
    Model model([&](Graph& g) { return build_transformer_loss(g, config, layout.micro_batch); });
    model.logits = [&](Graph& g) { return build_transformer_logits(g, config, 1); };
    Trainer trainer(context, model);
    const auto mine = trainer.generate(asked);
    if (context.mesh().rank() == context.mesh().shape().size() - 1) text = mine;
  });
  return text;
}

std::vector<std::int32_t> generate(const Layout& layout, double temperature) {
  return generate(layout, {{5, 6, 7}, 40, temperature});
}

TEST(Generate, MakesTheSameTokensOnEveryLayout) {
  for (const double temperature : {0.0, 1.0}) {
    const auto one = generate({1, 1, 1, 1, 1, false}, temperature);
    ASSERT_EQ(one.size(), 40u);
    EXPECT_EQ(generate({2, 1, 1, 1, 1, false}, temperature), one);
    EXPECT_EQ(generate({1, 2, 1, 2, 1, false}, temperature), one);
    EXPECT_EQ(generate({1, 1, 2, 1, 1, false}, temperature), one);
    EXPECT_EQ(generate({1, 2, 2, 1, 1, false}, temperature), one);
    EXPECT_EQ(generate({1, 2, 1, 2, 1, false, false, true}, temperature), one);
  }
}

TEST(Generate, TakesTheMostProbableTokensAlikeOnEveryLayout) {
  GenerateOptions asked{{5, 6, 7}, 40, 1.5};
  asked.top_k = 8;
  asked.top_p = 0.7;
  const auto one = generate({}, asked);
  EXPECT_NE(generate({}, {{5, 6, 7}, 40, 1.5}), one);
  EXPECT_EQ(generate({2, 1, 1, 1, 1, false}, asked), one);
  EXPECT_EQ(generate({1, 2, 1, 1, 1, false}, asked), one);
  EXPECT_EQ(generate({1, 1, 2, 1, 1, false}, asked), one);
  asked.number = 1;
  EXPECT_NE(generate({}, asked), one);
}

TEST(Generate, EndsBeforeTheTokenThatStopsIt) {
  GenerateOptions asked{{5, 6, 7}, 40, 1};
  auto expected = generate({}, asked);
  asked.stops = {-1, expected[10]};
  expected.erase(std::find(expected.begin(), expected.end(), expected[10]), expected.end());
  EXPECT_LT(expected.size(), 11u);
  for (const Layout& layout : {Layout{}, Layout{.pipeline = 2}})
    EXPECT_EQ(generate(layout, asked), expected);
}

TEST(Generate, NamesLogitsThatAreNotFiniteOnAllRanks) {
  TransformerConfig config;
  config.num_layers = 2;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.seq_length = 12;
  config.vocab_size = 31;
  config.init_std = 3e38f;  // some weights are infinite
  for (const Layout& layout : {Layout{}, Layout{.pipeline = 2}, Layout{.tensor = 2}})
    on_ranks(layout, options_for(layout), [&](Context& context) {
      Model model([&](Graph& g) { return build_transformer_loss(g, config, layout.micro_batch); });
      model.logits = [&](Graph& g) { return build_transformer_logits(g, config, 1); };
      Trainer trainer(context, model);
      EXPECT_EQ(message_of([&] {
                  trainer.generate({{5, 6, 7}, 40, 1});
                }),
                "no token can be drawn after 3 tokens: logits of the model are not finite; the "
                "model has diverged");
    });
}

TEST(Generate, TemperatureZeroIsNotSampling) {
  EXPECT_NE(generate({1, 1, 1, 1, 1, false}, 0), generate({1, 1, 1, 1, 1, false}, 2));
}

}  // namespace
}  // namespace trireme
