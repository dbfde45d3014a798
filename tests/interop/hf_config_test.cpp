// config.json of the families, in both generations, and what is refused.
#include "runtime/interop/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/core/text/one_line.h"
#include "tests/interop/hf_configs.h"
#include "tests/interop/read_config.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test_name.h"

namespace trireme::interop {
namespace {

using test::read_config;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(HfConfig, OfPublishedModelsAreThePresets) {
  for (const auto& [name, text] : published) {
    TransformerConfig model = read_config(text).model;
    EXPECT_EQ(model.identity(), preset(name).identity()) << name;
    EXPECT_EQ(model.parameter_count(), preset(name).parameter_count()) << name;
  }
}

TEST(HfConfig, SaysTypeLengthsAndWhatItDoesNotUse) {
  const HfConfig llama = read_config(llama_31);
  EXPECT_EQ(llama.model_type, "llama");
  EXPECT_EQ(llama.dtype, "bfloat16");
  EXPECT_EQ(llama.max_positions, 131072);
  EXPECT_EQ(llama.model.seq_length, 8192);  // of the first training
  EXPECT_THAT(llama.limits, IsEmpty());
  EXPECT_EQ(longest_sequence(llama), 131072);
  EXPECT_THAT(llama.not_used, ElementsAre("bos_token_id", "eos_token_id", "pretraining_tp",
                                          "transformers_version", "use_cache"));
  const HfConfig gpt = read_config(gpt2);
  EXPECT_EQ(gpt.model.seq_length, 1024);
  EXPECT_THAT(gpt.notes, ElementsAre("attn_pdrop 0.1 is not taken over: --hidden-dropout decides",
                                     "resid_pdrop 0.1 is not taken over: --hidden-dropout decides",
                                     "embd_pdrop 0.1 is not taken over: --hidden-dropout decides"));
  EXPECT_THAT(gpt.not_used, Contains("summary_type"));
}

TEST(HfConfig, BothGenerationsAreTheSameModel) {
  const HfConfig old = read_config(llama_31);
  const std::string base = without(without(llama_31, "rope_theta"), "rope_scaling");
  const std::string now = with(without(base, "torch_dtype"), "dtype", "\"bfloat16\"");
  const std::string parameters =
      R"({"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,)"
      R"( "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";
  EXPECT_EQ(read_config(with(now, "rope_parameters", parameters)).model.identity(),
            old.model.identity());
  EXPECT_EQ(read_config(with(now, "rope_parameters", parameters)).dtype, "bfloat16");
  EXPECT_EQ(read_config(with(llama_31, "rope_parameters", parameters)).model.identity(),
            old.model.identity());
}

TEST(HfConfig, OlderFilesCallTheTypeOfScalingType) {
  const std::string file = with(llama_31, "rope_scaling", R"({"type": "linear", "factor": 2})");
  const RotaryScaling scaling = read_config(file).model.rotary_scaling;
  EXPECT_EQ(scaling.kind, RotaryScalingKind::linear);
  EXPECT_EQ(scaling.factor, 2);
}

TEST(HfConfig, YarnHasTheDefaultsOfTransformers) {
  const HfConfig config =
      read_config(with(with(qwen25_05b, "max_position_embeddings", "131072"), "rope_scaling",
                       R"({"rope_type": "yarn", "factor": 4.0})"));
  const RotaryScaling& s = config.model.rotary_scaling;
  EXPECT_EQ(s.kind, RotaryScalingKind::yarn);
  EXPECT_EQ(s.original_positions, 131072);
  EXPECT_EQ(s.beta_fast, 32);
  EXPECT_EQ(s.beta_slow, 1);
  EXPECT_EQ(s.attention_factor, 0);
  const std::string all =
      R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,)"
      R"( "beta_fast": 16, "beta_slow": 2, "mscale": 2.0, "mscale_all_dim": 1.0})";
  const RotaryScaling deepseek =
      read_config(with(qwen25_05b, "rope_scaling", all)).model.rotary_scaling;
  EXPECT_EQ(deepseek.original_positions, 32768);
  EXPECT_EQ(deepseek.beta_fast, 16);
  EXPECT_EQ(deepseek.beta_slow, 2);
  EXPECT_FLOAT_EQ(deepseek.attention_factor,
                  (0.2f * std::log(4.0f) + 1) / (0.1f * std::log(4.0f) + 1));
}

TEST(HfConfig, WhatFamiliesAssumeWhereAKeyIsAbsent) {
  EXPECT_EQ(read_config(without(llama_31, "num_key_value_heads")).model.kv_heads(), 32);
  EXPECT_EQ(read_config(with(mistral, "num_key_value_heads", "null")).model.kv_heads(), 32);
  EXPECT_EQ(read_config(without(llama_31, "rope_theta")).model.rotary_base, 10000);
  EXPECT_EQ(read_config(without(llama_31, "rms_norm_eps")).model.norm_epsilon, 1e-6f);
  EXPECT_FALSE(read_config(without(llama_31, "tie_word_embeddings")).model.tie_embeddings);
  EXPECT_TRUE(read_config(gpt2).model.tie_embeddings);
  EXPECT_EQ(read_config(with(llama_31, "head_dim", "null")).model.head_dim(), 128);
  EXPECT_EQ(read_config(with(llama_31, "head_dim", "64")).model.head_dim(), 64);
}

TEST(HfConfig, AllBiasesOfLlamaAreThoseOfAllLinearLayers) {
  const HfConfig config =
      read_config(with(with(llama_31, "attention_bias", "true"), "mlp_bias", "true"));
  EXPECT_TRUE(config.model.add_bias_linear);
}

TEST(HfConfig, ActivationsOfGpt2) {
  EXPECT_EQ(read_config(with(gpt2, "activation_function", "\"gelu\"")).model.mlp,
            MlpKind::gelu_erf);
  EXPECT_EQ(read_config(with(gpt2, "activation_function", "\"gelu_pytorch_tanh\"")).model.mlp,
            MlpKind::gelu_tanh);
}

/// The longest sequence that is exact; 0: any.
Index longest(const std::string& text) {
  const HfConfig config = read_config(text);
  EXPECT_LE(config.limits.size(), 1u);
  if (config.limits.empty()) return 0;
  const Index tokens = config.limits.front().tokens;
  EXPECT_THAT(length_problems(config, tokens), IsEmpty());
  EXPECT_THAT(length_problems(config, tokens + 1),
              ElementsAre(AllOf(HasSubstr(str("--seq-length ", tokens + 1)),
                                HasSubstr(str("at most ", tokens)))));
  EXPECT_LE(config.model.seq_length, tokens);
  return tokens;
}

TEST(HfConfig, WindowsLimitTheSequence) {
  EXPECT_EQ(longest(mistral), 0);
  EXPECT_EQ(longest(with(mistral, "sliding_window", "2048")), 2048);
  EXPECT_EQ(longest(without(mistral, "sliding_window")), 4096);
  EXPECT_EQ(longest(with(qwen25_05b, "sliding_window", "100")), 0);  // use_sliding_window: false
  // Of its 24 layers those from max_window_layers on slide.
  const std::string used =
      with(with(qwen25_05b, "sliding_window", "100"), "use_sliding_window", "true");
  EXPECT_EQ(longest(used), 0);
  EXPECT_EQ(longest(without(used, "max_window_layers")), 0);  // 28
  EXPECT_EQ(longest(with(used, "layer_types", "null")), 0);
  const std::string slides = with(used, "max_window_layers", "23");
  EXPECT_EQ(longest(slides), 100);
  EXPECT_EQ(longest(with(used, "max_window_layers", "0")), 100);
  EXPECT_EQ(longest(without(slides, "sliding_window")), 4096);
  EXPECT_EQ(longest(with(slides, "layer_types", R"(["full_attention"])")), 0);
  EXPECT_EQ(longest(with(with(llama_31, "sliding_window", "100"), "layer_types",
                         R"(["sliding_attention"])")),
            0);
  EXPECT_EQ(longest(with(with(qwen25_05b, "sliding_window", "100"), "layer_types",
                         R"(["full_attention", "sliding_attention"])")),
            100);
  EXPECT_EQ(longest(with(qwen25_05b, "layer_types", R"(["full_attention"])")), 0);
}

TEST(HfConfig, DynamicScalingLimitsTheSequence) {
  EXPECT_EQ(longest(with(llama_31, "rope_scaling", R"({"rope_type": "dynamic", "factor": 2})")),
            131072);
  EXPECT_EQ(longest(with(llama_31, "rope_scaling",
                         R"({"rope_type": "dynamic", "factor": 2,)"
                         R"( "original_max_position_embeddings": 4096})")),
            4096);
}

struct Broken {
  std::string text;
  std::vector<std::string> parts;  // of the one problem
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << test::in_test_name(broken.parts.front());
}

struct Noted {
  std::string text;
  std::vector<std::string> notes;  // in this order; others may stand before them
};

// As transformers reads it, with a sentence where a file says two things or nothing.
TEST(HfConfig, WhatTransformersReadsInOneWayIsReadSoAndNoted) {
  const std::string rope5 = R"({"rope_type": "default", "rope_theta": 5000})";
  const Noted cases[] = {
      {without(mistral, "num_key_value_heads"),
       {"num_key_value_heads is absent; 8 is taken, as transformers does"}},
      {without(qwen3_06b, "head_dim"), {"head_dim is absent; 128 is taken, as transformers does"}},
      {without(qwen25_05b, "max_position_embeddings"),
       {"max_position_embeddings is absent; 32768 is taken, as transformers does"}},
      {qwen3_06b.substr(0, qwen3_06b.rfind('}')) + R"(, "rope_theta": 7, "rope_theta": 5000})",
       {"rope_theta is there more than once; the last counts, as in transformers"}},
      {with(qwen3_06b, "rope_parameters", rope5),
       {"rope_theta is 1000000, but rope_parameters.rope_theta is 5000, which counts"}},
      {with(qwen3_06b, "rope_scaling", rope5),
       {"rope_theta is 1000000, but rope_scaling.rope_theta is 5000, which counts"}},
      {with(llama_31, "rope_parameters", rope5),
       {"rope_scaling and rope_parameters differ; the first counts, as in transformers"}},
      {with(llama_31, "original_max_position_embeddings", "4096"),
       {"original_max_position_embeddings is 4096, which counts", "not the 8192"}},
      {with(mistral, "rope_scaling",
            R"({"type": "yarn", "factor": 4, "finetuned": true, "a\nb": 1})"),
       {"rope_scaling.finetuned has no meaning for rope_type yarn and is ignored",
        R"(rope_scaling."a\nb" has no meaning)"}}};
  for (const auto& [text, parts] : cases) {
    std::vector<std::string> problems;
    const HfConfig config = parse_hf_config(text, problems);
    EXPECT_THAT(problems, IsEmpty()) << text;
    for (const std::string& part : parts)
      EXPECT_THAT(config.notes, Contains(HasSubstr(part))) << text;
    for (const std::string& note : config.notes) EXPECT_EQ(note, one_line(note));
  }
  const auto base = [](const std::string& text) { return read_config(text).model.rotary_base; };
  EXPECT_EQ(base(cases[3].text), 5000);
  EXPECT_EQ(base(cases[4].text), 5000);
  EXPECT_EQ(base(cases[6].text), 500000);
  EXPECT_EQ(read_config(cases[6].text).model.rotary_scaling.kind, RotaryScalingKind::llama3);
  EXPECT_EQ(read_config(cases[7].text).model.rotary_scaling.original_positions, 4096);
  EXPECT_EQ(read_config(cases[0].text).model.kv_heads(), 8);
  EXPECT_EQ(read_config(cases[2].text).max_positions, 32768);
}

TEST(HfConfig, BiasesOfAttentionAloneAndYarnWithoutTruncationAreRead) {
  const TransformerConfig llama = read_config(with(llama_31, "attention_bias", "true")).model;
  EXPECT_TRUE(llama.add_attention_bias && !llama.add_bias_linear);
  EXPECT_TRUE(read_config(with(qwen3_06b, "attention_bias", "true")).model.add_attention_bias);
  const std::string yarn = R"({"rope_type": "yarn", "factor": 8, "truncate": false})";
  EXPECT_FALSE(read_config(with(llama_31, "rope_scaling", yarn)).model.rotary_scaling.truncate);
}

class BrokenConfig : public testing::TestWithParam<Broken> {};

void expect_one_problem_on_one_line(const Broken& broken) {
  std::vector<std::string> problems;
  parse_hf_config(broken.text, problems);
  ASSERT_EQ(problems.size(), 1u) << testing::PrintToString(problems);
  EXPECT_EQ(problems.front(), one_line(problems.front()));
  EXPECT_THAT(problems.front(), Not(HasSubstr("::")));  // keys of the file
  for (const std::string& part : broken.parts) EXPECT_THAT(problems.front(), HasSubstr(part));
}

TEST_P(BrokenConfig, HasOneProblemOnOneLine) { expect_one_problem_on_one_line(GetParam()); }

// Not in the table below, which each test of this program makes as it starts.
TEST(HfConfig, AWordOfMegabytesIsShownShort) {
  const std::string word = '"' + std::string(3 << 20, 'x') + '"';
  expect_one_problem_on_one_line(
      {with(llama_31, "model_type", word), {"model_type is \"xxx", "...; trireme trains gpt2"}});
  expect_one_problem_on_one_line({with(llama_31, "hidden_act", word), {"...; trireme has silu"}});
}

std::string scaled(const std::string& rope) { return with(llama_31, "rope_scaling", rope); }

const Broken broken[] = {
    {"", {"not JSON"}},
    {"{\"model_type\": \"llama\"", {"not JSON at byte"}},
    {"[1, 2]", {"the file is [1,2]; expected an object"}},
    {"{}", {"model_type is missing; trireme trains gpt2, llama, mistral, qwen2 and qwen3"}},
    {with(llama_31, "model_type", "\"gemma3_text\""), {"model_type is \"gemma3_text\""}},
    {with(llama_31, "model_type", R"("\u001b[31mX\nfoo: ok")"),
     {R"(model_type is "\u001b[31mX\nfoo: ok"; trireme trains)"}},
    {scaled(R"({"rope_type": "a\nb"})"), {R"(rope_type is "a\nb"; trireme has)"}},
    {scaled(R"({"a\nb": 1})"), {R"(rope_scaling."a\nb" is not understood)"}},
    {without(llama_31, "hidden_size"), {"hidden_size is missing; expected a whole number"}},
    {with(llama_31, "hidden_size", "\"4096\""), {"hidden_size is \"4096\"; expected a whole"}},
    {with(llama_31, "hidden_size", "4096.5"), {"hidden_size is 4096.5"}},
    {with(llama_31, "num_hidden_layers", "0"), {"num_hidden_layers is 0; expected", "from 1"}},
    {with(llama_31, "num_hidden_layers", "-3"), {"num_hidden_layers is -3"}},
    {with(llama_31, "vocab_size", "9223372036854775807"), {"vocab_size is 9223372036854775807"}},
    {with(llama_31, "num_attention_heads", "24"),
     {"hidden_size 4096 does not divide by num_attention_heads 24", "or give head_dim, the"}},
    {with(with(llama_31, "num_attention_heads", "30"), "head_dim", "128"),
     {"num_key_value_heads 8 does not divide num_attention_heads 30"}},
    {with(gpt2, "n_head", "7"), {"n_embd 768 does not divide by n_head 7"}},
    {with(llama_31, "max_position_embeddings", "null"), {"max_position_embeddings is null"}},
    {with(llama_31, "tie_word_embeddings", "1"), {"tie_word_embeddings is 1", "true or false"}},
    {with(llama_31, "hidden_act", "\"relu2\""), {"hidden_act is \"relu2\"; trireme has silu"}},
    {with(gpt2, "activation_function", "\"silu\""), {"activation_function is \"silu\""}},
    {with(gpt2, "scale_attn_weights", "false"), {"scale_attn_weights is false"}},
    {with(gpt2, "scale_attn_by_inverse_layer_idx", "true"), {"scale_attn_by_inverse_layer_idx"}},
    {with(gpt2, "add_cross_attention", "true"), {"add_cross_attention is true"}},
    {with(llama_31, "mlp_bias", "true"), {"mlp_bias is true"}},
    {with(llama_31, "quantization_config", R"({"quant_method": "gptq"})"),
     {"quantization_config is {\"quant_method\":\"gptq\"}"}},
    {with(llama_31, "final_logit_softcapping", "30.0"), {"final_logit_softcapping is 30"}},
    {with(qwen3_06b, "num_experts", "128"), {"num_experts is 128"}},
    {with(llama_31, "architectures", R"(["LlamaForSequenceClassification"])"),
     {"architectures is [\"LlamaForSequenceClassification\"]; expected LlamaForCausalLM"}},
    {with(llama_31, "auto_map", R"({"AutoModelForCausalLM": "modeling_x.X"})"),
     {"auto_map", "modeling_x.X", "trireme runs none"}},
    {with(llama_31, "partial_rotary_factor", "0.5"), {"partial_rotary_factor is 0.5"}},
    {with(qwen3_06b, "layer_types", R"(["linear_attention"])"),
     {"layer_types has \"linear_attention\""}},
    {with(llama_31, "rope_theta", "1e300"),
     {"rope_theta is 1e+300; expected a number that fits fp32"}},
    {with(llama_31, "rope_theta", "0"), {"rope_theta is 0; expected a number above 0"}},
    {scaled("3"), {"rope_scaling is 3; expected an object, or null"}},
    {scaled(R"({"rope_type": "longrope", "factor": 4})"),
     {"rope_type is \"longrope\"; trireme has default, linear, dynamic, llama3 or yarn"}},
    {scaled(R"({"rope_type": "linear"})"), {"rope_scaling.factor is missing"}},
    {scaled(R"({"rope_type": "linear", "factor": 0.5})"), {"factor 0.5: at least 1"}},
    {scaled(R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4})"),
     {"rope_scaling.original_max_position_embeddings is missing"}},
    {scaled(R"({"factor": 8})"), {"rope_scaling.factor is not understood without rope_type"}},
    {with(qwen3_06b, "rope_parameters", R"({"full_attention": {"rope_type": "default"}})"),
     {"rope_parameters.full_attention: positions that differ by layer"}},
};
INSTANTIATE_TEST_SUITE_P(Table, BrokenConfig, testing::ValuesIn(broken));

TEST(HfConfig, AllThatIsNotUnderstoodIsSaidAtOnceWithTheFile) {
  const ScratchDirectory folder;
  const std::string path = folder.write(
      "config.json", with(with(llama_31, "hidden_act", "\"gelu\""), "mlp_bias", "true"));
  const std::string message = message_of([&] { read_hf_config(path); });
  EXPECT_THAT(message, AllOf(HasSubstr(path + ": mlp_bias is true"),
                             HasSubstr(path + ": hidden_act is \"gelu\"")));
  EXPECT_THAT(message_of([&] { read_hf_config(folder / "missing.json"); }),
              HasSubstr("missing.json: cannot be read"));
  EXPECT_THAT(message_of([&] { read_hf_config(folder.write("empty.json", "")); }),
              HasSubstr("empty.json: is empty"));
  const std::string large = folder.write("large.json", std::string((16 << 20) + 1, ' '));
  EXPECT_THAT(message_of([&] { read_hf_config(large); }),
              HasSubstr("large.json: has more than 16777216 bytes"));
}

TEST(HfConfig, CodeOfAnUnknownModelIsNamedToo) {
  std::vector<std::string> problems;
  parse_hf_config(R"({"model_type": "internlm2", "auto_map": {"AutoModel": "modeling_x.X"}})",
                  problems);
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr("model_type is \"internlm2\""), HasSubstr("modeling_x.X")));
}

TEST(HfConfig, CodeThatIsNotTheModelIsANote) {
  const HfConfig config =
      read_config(with(llama_31, "auto_map", R"({"AutoTokenizer": ["tokenization_x.T", null]})"));
  EXPECT_THAT(config.notes, ElementsAre(HasSubstr("tokenization_x.T")));
}

TEST(HfConfig, ARangeOfInitialValuesOfZeroIsReplacedForAllValuesAreRead) {
  const HfConfig config = read_config(with(mistral, "initializer_range", "0.0"));
  EXPECT_EQ(config.model.init_std, 0.02f);
  EXPECT_THAT(config.notes, ElementsAre(HasSubstr("initializer_range 0 is not taken over")));
}

TEST(HfConfig, KeysThatAreNotUsedKeepATerminalAsItIs) {
  const HfConfig config = read_config(with(mistral, "a\x1b[2J", "1"));
  EXPECT_THAT(config.not_used, Contains(R"("a\u001b[2J")"));
  const HfConfig deleted = read_config(with(mistral, std::string(80, '\x7f'), "1"));
  for (const std::string& key : deleted.not_used) EXPECT_EQ(key, one_line(key));
}

}  // namespace
}  // namespace trireme::interop
