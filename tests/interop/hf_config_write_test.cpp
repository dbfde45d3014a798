// What is written as config.json, which both generations of transformers read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/interop/hf_configs.h"
#include "tests/interop/read_config.h"
#include "tests/support/message_of.h"

namespace trireme::interop {
namespace {

using test::read_config;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(HfConfigOf, AModelReadsAsTheModel) {
  for (const std::string& name : preset_names()) {
    const TransformerConfig model = preset(name);
    const Json json = hf_config_of(model, {.dtype = "bfloat16"});
    const HfConfig again = read_config(to_text(json));
    EXPECT_EQ(again.model.identity(), model.identity()) << name;
    EXPECT_EQ(again.dtype, "bfloat16");
    for (const char* key : {"bos_token_id", "eos_token_id"}) {  // not transformers' 1 and 2
      ASSERT_NE(json.find(key), nullptr) << name;
      EXPECT_EQ(to_text(*json.find(key)), "null") << name;
    }
    EXPECT_THAT(again.limits, IsEmpty()) << name;
  }
}

TEST(HfConfigOf, AScaledModelHasTheKeysOfBothGenerations) {
  const Json json = hf_config_of(preset("llama-3.1-8b"), {.max_positions = 131072});
  EXPECT_EQ(to_text(*json.find("rope_theta")), "500000.0");
  EXPECT_EQ(to_text(*json.find("rope_scaling")),
            R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
            R"("original_max_position_embeddings":8192})");
  EXPECT_EQ(to_text(*json.find("rope_parameters")),
            R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
            R"("original_max_position_embeddings":8192,"rope_theta":500000.0})");
  EXPECT_EQ(to_text(*json.find("rms_norm_eps")), "1e-05");
  EXPECT_EQ(to_text(*json.find("dtype")), R"("float32")");
  EXPECT_EQ(to_text(*json.find("torch_dtype")), R"("float32")");
  EXPECT_EQ(to_text(*json.find("max_position_embeddings")), "131072");
  const Json usual = hf_config_of(preset("llama-3.2-1b"), {});
  EXPECT_EQ(to_text(*usual.find("max_position_embeddings")), "262144");  // 32 x 8192
  const Json plain = hf_config_of(preset("llama-1b"), {});
  EXPECT_EQ(to_text(*plain.find("max_position_embeddings")), "8192");
}

TEST(HfConfigOf, YarnAndLinearReadAsTheModel) {
  for (const RotaryScalingKind kind : {RotaryScalingKind::linear, RotaryScalingKind::yarn}) {
    TransformerConfig model = preset("qwen3-0.6b");
    model.rotary_scaling = {.kind = kind, .factor = 4, .original_positions = 32768};
    EXPECT_EQ(read_config(to_text(hf_config_of(model, {}))).model.identity(), model.identity());
  }
}

TEST(HfConfigOf, AFileThatAModelCameFromKeepsItsKeys) {
  const HfConfig from = read_config(with(mistral, "my_key", "[1, 2]"));
  TransformerConfig model = from.model;
  model.vocab_size += 7;
  const Json json = hf_config_of(model, {.model_type = "mistral", .base = &from.json});
  EXPECT_EQ(to_text(*json.find("my_key")), "[1,2]");
  EXPECT_EQ(to_text(*json.find("vocab_size")), "32775");
  EXPECT_EQ(to_text(*json.find("dtype")), R"("float32")");
  ASSERT_NE(json.find("rope_parameters"), nullptr);
  EXPECT_EQ(read_config(to_text(json)).model.identity(), model.identity());
  model.norm_epsilon = 1e-3f;
  EXPECT_THAT(message_of([&] { hf_config_of(model, {.base = &from.json}); }),
              HasSubstr("--norm-epsilon"));
}

TEST(HfConfigOf, AFileWithoutAnArchitectureGetsThatOfItsType) {
  for (const auto& [name, file] : published) {
    const HfConfig from = read_config(without(file, "architectures"));
    const Json json = hf_config_of(from.model, {.base = &from.json});
    ASSERT_NE(json.find("architectures"), nullptr) << name;
    EXPECT_EQ(to_text(*json.find("architectures")),
              to_text(*read_config(file).json.find("architectures")));
  }
}

// A run may be longer than the model that it began with, by `hf import` and another --seq-length.
TEST(HfConfigOf, ALongerRunRaisesTheLengthAndChangesNothingElse) {
  const std::string yarn = with(qwen25_05b, "rope_scaling", R"({"type": "yarn", "factor": 4.0})");
  for (const std::string& file : {mistral, llama_31, yarn}) {
    const HfConfig from = read_config(file);
    TransformerConfig model = from.model;
    model.seq_length = 2 * from.max_positions;
    const HfConfig longer = read_config(to_text(hf_config_of(model, {.base = &from.json})));
    EXPECT_EQ(longer.max_positions, model.seq_length);
    EXPECT_EQ(longer.model.identity(), from.model.identity());
  }
  const HfConfig from = read_config(with(mistral, "sliding_window", "4096"));
  TransformerConfig model = from.model;
  model.seq_length = 8192;
  EXPECT_THAT(message_of([&] { hf_config_of(model, {.base = &from.json}); }),
              HasSubstr("--seq-length 8192 is too long: sliding_window 4096"));
}

TEST(HfConfigOf, ADynamicScalingIsWrittenForBothGenerations) {
  const std::string rope = R"({"type": "dynamic", "factor": 2})";
  const std::string old = with(llama_31, "rope_scaling", rope),
                    now = with(without(llama_31, "rope_scaling"), "rope_parameters", rope);
  for (const std::string& file : {old, now}) {
    const HfConfig from = read_config(file);
    const Json json = hf_config_of(from.model, {.base = &from.json});
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      ASSERT_NE(json.find(key), nullptr);
      EXPECT_EQ(to_text(*json.find(key)->find("type")), R"("dynamic")");
    }
    EXPECT_EQ(longest(to_text(json)), 131072);
  }
}

TEST(HfConfigOf, ABaseThatIsNoFloatIsKept) {
  const HfConfig from = read_config(with(mistral, "rope_theta", "283461213.0"));
  const Json json = hf_config_of(from.model, {.model_type = "mistral", .base = &from.json});
  EXPECT_EQ(to_text(*json.find("rope_theta")), "283461213.0");
  EXPECT_EQ(read_config(to_text(json)).model.identity(), from.model.identity());
}

TEST(HfConfigOf, AMistralIsALlamaWhoseFamilyIsSaid) {
  const TransformerConfig model = preset("mistral-7b");
  EXPECT_EQ(to_text(*hf_config_of(model, {}).find("model_type")), R"("llama")");
  const Json json = hf_config_of(model, {.model_type = "mistral"});
  EXPECT_EQ(to_text(*json.find("architectures")), R"(["MistralForCausalLM"])");
}

TEST(HfConfigOf, OptionsThatNoFamilyHasAreRefused) {
  TransformerConfig gpt = preset("tiny");
  gpt.position = PositionKind::rotary;
  TransformerConfig qwen = preset("qwen3-0.6b");
  qwen.add_qkv_bias = true;
  for (const TransformerConfig& model : {gpt, qwen})
    EXPECT_THAT(message_of([&] { hf_config_of(model, {}); }),
                AllOf(HasSubstr("no family of Hugging Face has the options of this model"),
                      HasSubstr("gpt2 has learned positions")));
}

}  // namespace
}  // namespace trireme::interop
