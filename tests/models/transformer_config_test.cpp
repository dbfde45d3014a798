// Counts of the presets, and what is said of configurations that cannot be built.
#include "trireme/models/transformer_config.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TransformerConfig, PresetsHaveTheirPublishedParameterCounts) {
  EXPECT_EQ(preset("gpt2-124m").parameter_count(), 124439808);
  EXPECT_EQ(preset("gpt2-355m").parameter_count(), 354823168);
  EXPECT_EQ(preset("gpt2-774m").parameter_count(), 774030080);
  EXPECT_EQ(preset("gpt2-1558m").parameter_count(), 1557611200);
  EXPECT_EQ(preset("llama-1b").parameter_count(), 1235814400);
  for (const char* name : {"llama-8b", "llama-3.1-8b"})
    EXPECT_EQ(preset(name).parameter_count(), 8030261248) << name;
  EXPECT_EQ(preset("llama-70b").parameter_count(), 70553706496);
  EXPECT_EQ(preset("llama-3.2-1b").parameter_count(), 1235814400);
  EXPECT_EQ(preset("llama-3.2-3b").parameter_count(), 3212749824);
  EXPECT_EQ(preset("mistral-7b").parameter_count(), 7248023552);
  EXPECT_EQ(preset("qwen2.5-0.5b").parameter_count(), 494032768);
  EXPECT_EQ(preset("qwen2.5-7b").parameter_count(), 7615616512);
  EXPECT_EQ(preset("qwen3-0.6b").parameter_count(), 596049920);
  EXPECT_EQ(preset("qwen3-8b").parameter_count(), 8190735360);
}

TEST(TransformerConfig, CountsFlopsByTheCommonConvention) {
  const TransformerConfig c = preset("gpt2-124m");
  EXPECT_EQ(c.flops_per_token(), 6.0 * 124439808 + 6.0 * 12 * 768 * 1024);
  const TransformerConfig wide = preset("qwen3-0.6b");  // 16 heads of 128 in a width of 1024
  EXPECT_EQ(wide.flops_per_token(), 6.0 * 596049920 + 6.0 * 28 * 2048 * 4096);
}

TEST(TransformerConfig, EveryPresetCanBeBuiltOnOneAndManyRanks) {
  for (const std::string& name : preset_names()) {
    EXPECT_THAT(problems_of(preset(name), 1, 1), IsEmpty()) << name;
    if (name == "gpt2-1558m") continue;  // 25 heads
    const Index ranks = preset(name).kv_heads() == 2 ? 2 : 4;
    EXPECT_THAT(problems_of(preset(name), ranks, 1), IsEmpty()) << name;
  }
  EXPECT_THAT(problems_of(preset("gpt2-1558m"), 4, 1),
              ElementsAre(AllOf(HasSubstr("--num-attention-heads 25"), HasSubstr("24 or 28"),
                                HasSubstr("1, 5 or 25"))));
}

TEST(TransformerConfig, UnknownPresetsAreListed) {
  try {
    preset("gpt3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("gpt3"), HasSubstr("gpt2-124m, gpt2-355m")));
  }
}

TEST(TransformerConfig, TheHeadIsCutIntoOneToAsManyPiecesAsThereAreRows) {
  TransformerConfig c;  // sequence 128
  for (const Index chunks : {1, 3, 256}) {
    c.lm_head_chunks = chunks;
    EXPECT_THAT(problems_of(c, 1, 2), IsEmpty()) << chunks;
  }
  for (const Index chunks : {-1, 0, 257}) {
    c.lm_head_chunks = chunks;
    EXPECT_THAT(problems_of(c, 1, 2), ElementsAre(AllOf(HasSubstr(str("--lm-head-chunks ", chunks)),
                                                        HasSubstr("256 token rows"),
                                                        HasSubstr("at least 1 and at most 256"))));
  }
}

TEST(TransformerConfig, AllProblemsAreReportedTogether) {
  TransformerConfig c;
  c.hidden_size = 130;  // 4 heads
  c.num_query_groups = 3;
  c.ffn_hidden_size = 511;
  c.max_position_embeddings = 64;  // sequence 128
  c.hidden_dropout = 1.5f;
  c.sequence_parallel = SequenceParallel::on;
  EXPECT_THAT(problems_of(c, 3, 1),
              ElementsAre(AllOf(HasSubstr("--hidden-size 130"), HasSubstr("128 or 132")),
                          AllOf(HasSubstr("--num-query-groups 3"), HasSubstr("1, 2 or 4")),
                          AllOf(HasSubstr("--seq-length 128"), HasSubstr("at most 64")),
                          AllOf(HasSubstr("--num-attention-heads 4"), HasSubstr("3 or 6")),
                          AllOf(HasSubstr("--ffn-hidden-size 511"), HasSubstr("510 or 513")),
                          AllOf(HasSubstr("--sequence-parallel"), HasSubstr("126 or 129")),
                          HasSubstr("--hidden-dropout 1.5")));
}

TEST(TransformerConfig, IdentityIsWhatChangesTheFunctionAndNotHowItIsExecuted) {
  const TransformerConfig c = preset("tiny");
  TransformerConfig other = c;
  other.hidden_dropout = 0.5f;
  other.recompute = RecomputeGranularity::full;
  other.sequence_parallel = SequenceParallel::on;
  other.ffn_hidden_size = c.ffn();
  EXPECT_EQ(other.identity(), c.identity());
  const auto changed = [&](auto change) {
    TransformerConfig model = c;
    change(model);
    return model.identity() != c.identity();
  };
  EXPECT_TRUE(changed([](auto& m) { m.num_attention_heads = 1; }));  // no shape shows it
  EXPECT_TRUE(changed([](auto& m) { m.norm_epsilon = 1e-6f; }));
  EXPECT_TRUE(changed([](auto& m) { m.mlp = MlpKind::gelu_erf; }));
  EXPECT_TRUE(changed([](auto& m) { m.position = PositionKind::rotary; }));
  EXPECT_TRUE(changed([](auto& m) { m.tie_embeddings = !m.tie_embeddings; }));
  EXPECT_TRUE(changed([](auto& m) { m.qk_layernorm = true; }));
  EXPECT_TRUE(changed([](auto& m) { m.kv_channels = 16; }));
  EXPECT_FALSE(changed([](auto& m) { m.kv_channels = 32; }));     // hidden_size / heads
  EXPECT_FALSE(changed([](auto& m) { m.add_qkv_bias = true; }));  // all have one
}

TEST(TransformerConfig, IdentityHasWhatTheKindOfScalingReads) {
  using testing::Pair;
  TransformerConfig c = preset("llama-3.1-8b");
  const auto facts = [&] {  // those after the base
    const auto all = c.identity();
    const auto base = std::find_if(all.begin(), all.end(),
                                   [](const auto& fact) { return fact.first == "--rotary-base"; });
    return std::vector(std::next(base), all.end());
  };
  EXPECT_THAT(
      facts(),
      ElementsAre(Pair("--rope-type", "llama3"), Pair("--rope-scaling-factor", "8"),
                  Pair("--rope-original-positions", "8192"), Pair("--rope-low-freq-factor", "1"),
                  Pair("--rope-high-freq-factor", "4")));
  c.rotary_scaling.kind = RotaryScalingKind::linear;
  EXPECT_THAT(facts(),
              ElementsAre(Pair("--rope-type", "linear"), Pair("--rope-scaling-factor", "8")));
  c.rotary_scaling = {.kind = RotaryScalingKind::yarn, .factor = 4};
  EXPECT_THAT(facts(), ElementsAre(Pair("--rope-type", "yarn"), Pair("--rope-scaling-factor", "4"),
                                   Pair("--rope-original-positions", "8192"),
                                   Pair("--yarn-beta-fast", "32"), Pair("--yarn-beta-slow", "1"),
                                   Pair("--yarn-attention-factor", "1.1386294")));
  c.rotary_scaling.truncate = false;
  EXPECT_THAT(facts(), testing::Contains(Pair("--yarn-no-truncate", "true")));
  c.rotary_scaling = {};
  EXPECT_THAT(facts(), IsEmpty());
  c.add_qkv_bias = true;
  EXPECT_THAT(facts(), ElementsAre(Pair("--add-qkv-bias", "true")));
  c.add_attention_bias = true;  // that of queries, keys and values is among them
  EXPECT_THAT(facts(), ElementsAre(Pair("--add-attention-bias", "true")));
}

TEST(TransformerConfig, IsDescribedWithWhatItHas) {
  EXPECT_THAT(preset("qwen3-0.6b").describe(),
              HasSubstr("16 heads in 8 groups of 128 channels with norms, swiglu 3072"));
  EXPECT_THAT(preset("qwen2.5-7b").describe(), HasSubstr("28 heads in 4 groups with biases"));
  EXPECT_THAT(preset("llama-3.2-3b").describe(), HasSubstr("rotary (llama3 x 32) positions"));
  EXPECT_THAT(preset("llama-8b").describe(), HasSubstr("RMSNorm, rotary positions, sequence"));
}

TEST(TransformerConfig, AHeadNeedNotBeThatShareOfTheWidth) {
  TransformerConfig c;
  c.hidden_size = 130;  // 4 heads
  EXPECT_THAT(problems_of(c, 1, 1), ElementsAre(HasSubstr("--kv-channels")));
  c.kv_channels = 33;
  EXPECT_THAT(problems_of(c, 1, 1), IsEmpty());
  EXPECT_EQ(c.attention_width(), 132);
  c.position = PositionKind::rotary;
  EXPECT_THAT(problems_of(c, 1, 1),
              ElementsAre(AllOf(HasSubstr("--kv-channels 33 is odd"), HasSubstr("32 or 34"))));
  c.kv_channels = Index{1} << 20;
  c.num_attention_heads = 32;
  EXPECT_THAT(problems_of(c, 1, 1), ElementsAre(HasSubstr("channels; at most 16777216")));
  c.kv_channels = -1;
  EXPECT_THAT(problems_of(c, 1, 1),
              ElementsAre("--kv-channels -1: at least 1, or 0 for the default"));
}

TEST(TransformerConfig, NumbersOfTheScalingAreChecked) {
  TransformerConfig c = preset("tiny-llama");
  c.rotary_scaling = {.kind = RotaryScalingKind::llama3,
                      .factor = 0.5f,
                      .original_positions = 0,
                      .low_frequency_factor = 4};
  EXPECT_THAT(problems_of(c, 1, 1),
              ElementsAre("--rope-scaling-factor 0.5: at least 1",
                          "--rope-original-positions 0: from 1 to 2147483648",
                          "--rope-low-freq-factor 4 and --rope-high-freq-factor "
                          "4: above 0, the second above the first"));
  c.rotary_scaling = {.kind = RotaryScalingKind::yarn, .beta_fast = 1, .attention_factor = -1};
  c.rotary_base = 1;
  EXPECT_THAT(
      problems_of(c, 1, 1),
      ElementsAre(HasSubstr("--yarn-beta-fast 1 and --yarn-beta-slow 1"),
                  HasSubstr("--yarn-attention-factor -1"), HasSubstr("--rotary-base 1: above 1")));
  c.rotary_scaling.kind = RotaryScalingKind::none;
  EXPECT_THAT(problems_of(c, 1, 1), IsEmpty());
}

TEST(TransformerConfig, NumbersAreFinite) {
  TransformerConfig c = preset("tiny-llama");
  c.norm_epsilon = c.rotary_base = std::numeric_limits<float>::infinity();
  c.rotary_scaling.factor = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(problems_of(c, 1, 1),
              ElementsAre("--norm-epsilon inf: a finite number is needed",
                          "--rotary-base inf: a finite number is needed",
                          "--rope-scaling-factor nan: a finite number is needed"));
}

TEST(TransformerConfig, IdentityHasTheValuesOfTheFields) {
  TransformerConfig c;
  c.add_bias_linear = false;
  c.tie_embeddings = true;
  EXPECT_THAT(c.identity(), testing::IsSupersetOf(
                                {testing::Pair("--disable-bias-linear", "true"),
                                 testing::Pair("--untie-embeddings-and-output-weights", "false")}));
}

TEST(TransformerConfig, SizesBelowOneAreReportedAlone) {
  TransformerConfig c;
  c.num_layers = 0;
  c.num_attention_heads = -1;
  EXPECT_THAT(problems_of(c, 1, 1), ElementsAre(HasSubstr("--num-layers 0: at least 1"),
                                                HasSubstr("--num-attention-heads -1")));
}

TEST(TransformerConfig, SizesAboveTheLimitsAreReportedAlone) {
  TransformerConfig c;
  c.num_layers = 10'001;
  c.hidden_size = (Index{1} << 20) + 4;
  c.ffn_hidden_size = Index{1} << 62;
  c.num_query_groups = Index{1} << 40;
  EXPECT_THAT(
      problems_of(c, 1, Index{1} << 40),
      ElementsAre("--num-layers 10001: at most 10000", "--hidden-size 1048580: at most 1048576",
                  "--micro-batch-size 1099511627776: at most 1048576",
                  "--ffn-hidden-size 4611686018427387904: at most 16777216",
                  "--num-query-groups 1099511627776: at most 1048576"));
}

TEST(TransformerConfig, AllSizesAtTheirLimitsAreCountedWithoutOverflow) {
  TransformerConfig c;
  c.num_layers = 10'000;
  c.hidden_size = c.num_attention_heads = Index{1} << 20;
  c.ffn_hidden_size = Index{1} << 24;
  c.vocab_size = c.max_position_embeddings = Index{1} << 31;
  c.seq_length = Index{1} << 30;
  c.mlp = MlpKind::swiglu;
  c.tie_embeddings = false;
  EXPECT_THAT(problems_of(c, 1, Index{1} << 20),
              ElementsAre(HasSubstr("are 578501875802832896 parameters; at most 281474976710656"),
                          HasSubstr("are 1125899906842624 token rows; at most 2147483648")));
}

TEST(TransformerConfig, RotaryHeadsHaveAnEvenSize) {
  TransformerConfig c;
  c.position = PositionKind::rotary;
  c.hidden_size = 132;  // 33 a head
  EXPECT_THAT(problems_of(c, 1, 1), ElementsAre(AllOf(HasSubstr("odd"), HasSubstr("128 or 136"))));
}

}  // namespace
}  // namespace trireme
