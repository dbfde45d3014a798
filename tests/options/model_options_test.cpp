// Options of the model that published models need: what they set, and what has no meaning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TransformerConfig model_of(const std::string& line) {
  const GptCommandLine all(line, 1);
  EXPECT_THAT(all.problems.all(), IsEmpty()) << line;
  return all.gpt.model;
}

TEST(ModelOptions, SetTheModel) {
  const TransformerConfig c = model_of(
      "--hidden-size 130 --kv-channels 32 --disable-bias-linear --add-qkv-bias --qk-layernorm "
      "--position-embedding-type rope --rope-type yarn --rope-scaling-factor 4 "
      "--rope-original-positions 64 --yarn-beta-fast 16 --yarn-beta-slow 2 "
      "--yarn-attention-factor 1.5 --yarn-no-truncate");
  EXPECT_EQ(c.head_dim(), 32);
  EXPECT_TRUE(c.add_qkv_bias && c.qk_layernorm && !c.add_bias_linear);
  EXPECT_EQ(c.rotary_scaling.kind, RotaryScalingKind::yarn);
  EXPECT_EQ(c.rotary_scaling.factor, 4);
  EXPECT_EQ(c.rotary_scaling.original_positions, 64);
  EXPECT_EQ(c.rotary_scaling.beta_fast, 16);
  EXPECT_EQ(c.rotary_scaling.beta_slow, 2);
  EXPECT_EQ(c.rotary_scaling.attention_factor, 1.5f);
  EXPECT_FALSE(c.rotary_scaling.truncate);
  EXPECT_TRUE(model_of("--disable-bias-linear --add-attention-bias").add_attention_bias);
}

TEST(ModelOptions, OfLlama3ScalingAreThoseOfLlama31) {
  EXPECT_EQ(model_of("--model llama-8b --rope-type llama3").identity(),
            model_of("--model llama-3.1-8b").identity());
  const TransformerConfig c = model_of(
      "--model llama-3.1-8b --rope-low-freq-factor 2 --rope-high-freq-factor 8 "
      "--rope-scaling-factor 16");
  EXPECT_EQ(c.rotary_scaling.low_frequency_factor, 2);
  EXPECT_EQ(c.rotary_scaling.high_frequency_factor, 8);
  EXPECT_EQ(c.rotary_scaling.factor, 16);
}

TEST(ModelOptions, NamesOfPresetsIgnoreCase) {
  EXPECT_EQ(GptCommandLine("--model Llama-3.1-8B", 1).gpt.preset, "llama-3.1-8b");
}

TEST(ModelOptions, TheSizeOfAHeadIsSettled) {
  EXPECT_EQ(model_of("").kv_channels, 32);
  EXPECT_EQ(model_of("--model qwen3-0.6b --hidden-size 512").kv_channels, 128);
  EXPECT_EQ(model_of("--model llama-1b --hidden-size 64").kv_channels, 2);
}

TEST(ModelOptions, ACheckpointNamesThoseThatDifferFromThePreset) {
  const auto of = [](const std::string& line) {
    return model_options(GptCommandLine(line, 1).command.configuration());
  };
  EXPECT_EQ(of("--model qwen3-0.6b"), "--model qwen3-0.6b");
  EXPECT_EQ(of("--model qwen3-0.6b --qk-layernorm=false --kv-channels 64"),
            "--model qwen3-0.6b --kv-channels 64 --qk-layernorm=false");
  EXPECT_EQ(of("--model llama-8b --rope-type linear"), "--model llama-8b --rope-type linear");
}

struct WrongModelLine {
  std::string line;
  std::vector<std::string> parts;  // of the one message
};
void PrintTo(const WrongModelLine& wrong, std::ostream* out) { *out << wrong.line; }

class WrongModel : public testing::TestWithParam<WrongModelLine> {};

TEST_P(WrongModel, IsRefusedWithOneMessage) {
  const std::vector<std::string> problems = problems_of(GetParam().line, 1);
  ASSERT_EQ(problems.size(), 1u) << testing::PrintToString(problems);
  for (const std::string& part : GetParam().parts) EXPECT_THAT(problems.front(), HasSubstr(part));
}

const WrongModelLine wrong_model_lines[] = {
    {"--add-qkv-bias", {"--add-qkv-bias has no meaning without --disable-bias-linear"}},
    {"--add-attention-bias", {"--add-attention-bias has no meaning without --disable-bias-"}},
    {"--model llama-3.1-8b --yarn-no-truncate", {"--yarn-no-truncate has no meaning with"}},
    {"--rope-type linear", {"--rope-type has no meaning", "learned_absolute"}},
    {"--rope-scaling-factor 4", {"--rope-scaling-factor has no meaning", "learned_absolute"}},
    {"--model llama-8b --rope-scaling-factor 4",
     {"--rope-scaling-factor has no meaning with --rope-type default, only with linear, llama3 or "
      "yarn"}},
    {"--model llama-8b --rope-type linear --rope-original-positions 64",
     {"--rope-original-positions has no meaning with --rope-type linear", "llama3 or yarn"}},
    {"--model llama-3.1-8b --yarn-beta-fast 4",
     {"--yarn-beta-fast has no meaning with --rope-type llama3, only with yarn"}},
    {"--model llama-8b --rope-type ntk", {"--rope-type ntk", "{default,linear,llama3,yarn}"}},
    {"--model llama-8b --rope-type linear --rope-scaling-factor 0.5",
     {"--rope-scaling-factor 0.5"}},
    {"--model llama-3.1-8b --rope-high-freq-factor 1",
     {"--rope-low-freq-factor 1 and --rope-high-freq-factor 1", "above the first"}},
    {"--model llama-8b --rope-type yarn --rotary-base 1",
     {"--rotary-base 1: above 1 for --rope-type yarn"}},
    {"--model qwen3-0.6b --kv-channels 33", {"--kv-channels 33 is odd", "32 or 34"}},
    {"--kv-channels 0", {"--kv-channels 0", "from 1 to 1048576"}},
    {"--use-rope-scaling", {"use --rope-type llama3"}},
    {"--qk-norm", {"use --qk-layernorm"}},
};
INSTANTIATE_TEST_SUITE_P(Table, WrongModel, testing::ValuesIn(wrong_model_lines));

}  // namespace
}  // namespace trireme
