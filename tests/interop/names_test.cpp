// Which tensor of Hugging Face holds which logical one, and what of a directory does not fit.
#include "runtime/interop/names.h"

#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/models/transformer.h"

#include "runtime/interop/model_files.h"
#include "tests/interop/read_config.h"
#include "tests/interop/toy_model.h"

namespace trireme::interop {
namespace {

using test::config_of;
using test::gpt2_config;
using test::llama_config;
using test::mistral_config;
using test::qwen2_config;
using test::qwen3_config;
using test::random_tensor;
using test::RawTensor;
using test::read_config;
using test::tensor_called;
using test::toy_model;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const std::string biased_llama_config =
    config_of("llama", R"(,"attention_bias":true,"mlp_bias":true)");
const std::string biased_qwen3_config =
    config_of("qwen3", R"(,"head_dim":16,"attention_bias":true)");

TEST(HfNames, AreOneForEachParameterOfTheModelWithItsShape) {
  for (const std::string& text : {gpt2_config, llama_config, qwen2_config, qwen3_config,
                                  mistral_config, biased_llama_config, biased_qwen3_config}) {
    const HfConfig config = read_config(text);
    Graph graph;
    build_transformer_loss(graph, config.model, 1);
    std::map<std::string, std::string> parameters, views;
    for (const Parameter& parameter : graph.parameters())
      for (const ParameterPart& part : parameter.parts) parameters[part.name] = str(part.global);
    for (const HfView& view : hf_views(config.model_type, config.model))
      views[view.logical] = str(view.shape);
    EXPECT_EQ(views, parameters) << text;
  }
}

/// By logical name: "h.0.attn.c_attn.weight^T (32, 96) from 32"
std::map<std::string, std::string> shown(const std::string& text) {
  const HfConfig config = read_config(text);
  std::map<std::string, std::string> all;
  for (const HfView& view : hf_views(config.model_type, config.model))
    all[view.logical] =
        str(view.hf, view.transposed ? "^T " : " ", view.hf_shape, " from ", view.first_row);
  return all;
}

TEST(HfNames, OfGpt2AreTransposedAndFused) {
  auto names = shown(gpt2_config);
  EXPECT_EQ(names["embedding.weight"], "transformer.wte.weight (37, 32) from 0");
  EXPECT_EQ(names["position.weight"], "transformer.wpe.weight (24, 32) from 0");
  EXPECT_EQ(names["block.1.attention_norm.bias"], "transformer.h.1.ln_1.bias (32) from 0");
  EXPECT_EQ(names["block.0.attention.query.weight"],
            "transformer.h.0.attn.c_attn.weight^T (32, 96) from 0");
  EXPECT_EQ(names["block.0.attention.key.weight"],
            "transformer.h.0.attn.c_attn.weight^T (32, 96) from 32");
  EXPECT_EQ(names["block.0.attention.value.bias"], "transformer.h.0.attn.c_attn.bias (96) from 64");
  EXPECT_EQ(names["block.0.attention.output.weight"],
            "transformer.h.0.attn.c_proj.weight^T (32, 32) from 0");
  EXPECT_EQ(names["block.0.mlp.up.weight"], "transformer.h.0.mlp.c_fc.weight^T (32, 128) from 0");
  EXPECT_EQ(names["block.0.mlp.down.weight"],
            "transformer.h.0.mlp.c_proj.weight^T (128, 32) from 0");
  EXPECT_EQ(names["norm.weight"], "transformer.ln_f.weight (32) from 0");
  EXPECT_EQ(names.count("head.weight"), 0u);
}

TEST(HfNames, OfTheOthersAreThoseOfLlama) {
  auto names = shown(llama_config), qwen2 = shown(qwen2_config), qwen3 = shown(qwen3_config);
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(names["embedding.weight"], "model.embed_tokens.weight (37, 32) from 0");
  EXPECT_EQ(names["block.1.attention_norm.weight"],
            "model.layers.1.input_layernorm.weight (32) from 0");
  EXPECT_EQ(names["block.0.attention.query.weight"],
            layer + "self_attn.q_proj.weight (32, 32) from 0");
  EXPECT_EQ(names["block.0.attention.value.weight"],
            layer + "self_attn.v_proj.weight (16, 32) from 0");
  EXPECT_EQ(names["block.0.mlp_norm.weight"],
            layer + "post_attention_layernorm.weight (32) from 0");
  EXPECT_EQ(names["block.0.mlp.gate.weight"], layer + "mlp.gate_proj.weight (48, 32) from 0");
  EXPECT_EQ(names["block.0.mlp.down.weight"], layer + "mlp.down_proj.weight (32, 48) from 0");
  EXPECT_EQ(names["norm.weight"], "model.norm.weight (32) from 0");
  EXPECT_EQ(names["head.weight"], "lm_head.weight (37, 32) from 0");
  EXPECT_EQ(qwen2["block.0.attention.key.bias"], layer + "self_attn.k_proj.bias (16) from 0");
  EXPECT_EQ(qwen2.count("block.0.attention.output.bias"), 0u);
  EXPECT_EQ(qwen3["block.0.attention.key_norm.weight"],
            layer + "self_attn.k_norm.weight (16) from 0");
  EXPECT_EQ(qwen3["block.0.attention.output.weight"],
            layer + "self_attn.o_proj.weight (32, 64) from 0");
}

/// What does not fit in a directory of these tensors.
std::vector<std::string> problems(const std::string& text, const std::vector<RawTensor>& tensors,
                                  std::vector<std::string>* notes = nullptr) {
  const ScratchDirectory folder;
  test::write_model(folder, text, tensors, 2);
  const HfConfig config = read_config(text);
  std::vector<HfView> views = hf_views(config.model_type, config.model);
  std::vector<std::string> all;
  return fit(views, safetensors::open_directory(folder.path()), notes != nullptr ? *notes : all);
}

TEST(HfNames, FitFilesWithAndWithoutThePrefixOfGpt2AndOldTables) {
  std::vector<RawTensor> tensors = toy_model(gpt2_config, "F32");
  EXPECT_THAT(problems(gpt2_config, tensors), IsEmpty());
  for (RawTensor& tensor : tensors) tensor.name.erase(0, std::string("transformer.").size());
  tensors.push_back({"h.0.attn.bias", "U8", {1, 1, 4, 4}, std::string(16, 'x')});
  tensors.push_back({"h.0.attn.masked_bias", "F32", {}, "1234"});
  tensors.push_back(random_tensor("lm_head.weight", "F32", {37, 32}, 9));
  EXPECT_THAT(problems(gpt2_config, tensors), IsEmpty());
  tensors = toy_model(llama_config, "BF16");
  tensors.push_back(random_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {4}, 9));
  EXPECT_THAT(problems(llama_config, tensors), IsEmpty());
}

/// The same tensors with `change` of each name.
template <class Change>
std::vector<RawTensor> renamed(std::vector<RawTensor> tensors, Change&& change) {
  for (RawTensor& tensor : tensors) tensor.name = change(tensor.name);
  return tensors;
}

TEST(HfNames, MayHaveThePrefixOfTheInnerModelOnceMoreOrOnceLess) {
  const std::string inner = "model.";
  const std::vector<RawTensor> tensors = toy_model(llama_config, "F32");
  const auto more = [&](const std::string& name) { return inner + name; };
  const auto less = [&](const std::string& name) {
    return name.starts_with(inner) ? name.substr(inner.size()) : name;
  };
  EXPECT_THAT(problems(llama_config, renamed(tensors, more)), IsEmpty());
  EXPECT_THAT(problems(llama_config, renamed(tensors, less)), IsEmpty());
  std::vector<RawTensor> both = renamed(tensors, more);
  both.push_back(random_tensor("model.norm.weight", "F32", {32}, 9));  // the right name wins
  EXPECT_THAT(problems(llama_config, both),
              ElementsAre("tensor model.model.norm.weight (32) has no place in this model"));
}

TEST(HfNames, OfAWrappedModelAreNamedInOneLine) {
  const std::vector<RawTensor> tensors = toy_model(llama_config, "F32");
  for (const auto& [prefix, says] :
       {std::pair{"_orig_mod.", "begin with _orig_mod., which torch.compile adds; save it with"},
        {"base_model.model.", "which PEFT adds; save it with model.merge_and_unload()"},
        {"module.", "begin with module., which DistributedDataParallel adds"},
        {"module.model.", "begin with module., which DistributedDataParallel adds"},
        {"own.net.", "begin with own.net.model., as in own.net.model.embed_tokens.weight"}})
    EXPECT_THAT(problems(llama_config,
                         renamed(tensors,
                                 [&, prefix = prefix](const auto& name) { return prefix + name; })),
                ElementsAre(HasSubstr(says)));
}

TEST(HfNames, DoublesAreRoundedAndNamesOfNoTensorAreNotNeeded) {
  std::vector<RawTensor> tensors = toy_model(llama_config, "F32");
  RawTensor& norm = tensor_called(tensors, "model.norm.weight");
  norm.type = "F64";
  norm.bytes.resize(32 * sizeof(double));
  std::vector<std::string> notes;
  EXPECT_THAT(problems(llama_config, tensors, &notes), IsEmpty());
  EXPECT_THAT(notes, ElementsAre("1 tensors of the type F64 are rounded to f32"));

  const ScratchDirectory folder;
  test::write_model(folder, llama_config, toy_model(llama_config, "F32"), 2);
  const std::string path = folder / "model.safetensors.index.json";
  std::ifstream in(path);
  std::string index{std::istreambuf_iterator<char>(in), {}};
  index.insert(index.find("model.norm.weight") - 1, R"("model.extra.weight": "b.safetensors", )");
  folder.write("model.safetensors.index.json", index);
  const ModelFiles model = open_model(folder.path());
  EXPECT_THAT(model.config.notes,
              ElementsAre(AllOf(HasSubstr("names tensors that are in no file: 1, as "),
                                HasSubstr("as model.extra.weight; the model does not need them"))));
}

TEST(HfNames, AllThatDoesNotFitIsListedAtOnce) {
  std::vector<RawTensor> tensors = toy_model(llama_config, "BF16");
  tensor_called(tensors, "model.norm.weight").name = "model.norm.bias";
  tensor_called(tensors, "lm_head.weight").shape = {32, 37};
  RawTensor& up = tensor_called(tensors, "model.layers.1.mlp.up_proj.weight");
  up.type = "I16";
  EXPECT_THAT(problems(llama_config, tensors),
              UnorderedElementsAre("tensor model.norm.weight (32) is missing",
                                   "tensor model.norm.bias (32) has no place in this model",
                                   "tensor lm_head.weight is (32, 37), should be (37, 32)",
                                   "tensor model.layers.1.mlp.up_proj.weight has the type I16; "
                                   "F32, BF16, F16 and F64 are read"));
}

TEST(HfNames, TheFirstOfManyProblemsAreListedAndTheOthersCounted) {
  std::vector<RawTensor> tensors = toy_model(llama_config, "BF16");
  const auto all = static_cast<Index>(tensors.size());
  for (RawTensor& tensor : tensors) tensor.name += "x";
  const std::vector<std::string> found = problems(llama_config, tensors);
  ASSERT_EQ(found.size(), 22u);
  EXPECT_EQ(found[0], "tensor model.embed_tokens.weight (37, 32) is missing");
  EXPECT_EQ(found[10],
            str("and ", all - 10, " more tensors are missing, or have another shape or type"));
  EXPECT_EQ(found[21], str("and ", all - 10, " more tensors have no place in this model"));
}

TEST(HfNames, OfAnUnknownTypeAreRefused) {
  EXPECT_EQ(message_of([] { hf_views("bloom", {}); }),
            "the model type bloom is not one of gpt2, llama, mistral, qwen2, qwen3");
}

}  // namespace
}  // namespace trireme::interop
