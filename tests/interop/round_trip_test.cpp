// Models of Hugging Face into a run and out again: no bit of a tensor changes.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "trireme/core/error.h"

#include "runtime/interop/export.h"
#include "runtime/interop/hf_source.h"
#include "runtime/interop/import.h"
#include "runtime/store/inspect/inspect.h"
#include "tests/interop/toy_model.h"
#include "tests/store/toy_step.h"

namespace trireme::interop {
namespace {

using safetensors::Element;
using test::gpt2_config;
using test::llama_config;
using test::mistral_config;
using test::qwen2_config;
using test::qwen3_config;
using test::RawTensor;
using test::tensor_called;
using test::toy_model;
using test::write_model;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Step 0 of `run`.
OpenedStep import(const ScratchDirectory& from, const std::string& run) {
  Manifest head;
  head.run = "test";
  head.created = "2026-01-01T00:00:00Z";
  import_model(open_model(from.path()), run, head, {});
  return open_step(run + "/step-000000");
}

std::string bytes_of(const safetensors::Directory& files, const std::string& name) {
  const safetensors::LocatedTensor* tensor = files.find(name);
  if (tensor == nullptr) return "missing";
  const auto file = bytes_of_file(files.file_path(*tensor));
  return {reinterpret_cast<const char*>(file.data()) + tensor->offset,
          static_cast<std::size_t>(tensor->bytes)};
}

struct Case {
  const char* name;
  const std::string* config;
  const char* type;
  Element element;
  int files;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

class RoundTrip : public ::testing::TestWithParam<Case> {};

TEST_P(RoundTrip, LeavesEveryTensorAsItWas) {
  const Case& c = GetParam();
  const ScratchDirectory folder, from;
  const std::vector<RawTensor> tensors = toy_model(*c.config, c.type);
  write_model(from, *c.config, tensors, c.files);
  from.write("tokenizer.json", "{}");
  const std::string run = folder / "run", to = folder / "out";
  const OpenedStep step = import(from, run);
  EXPECT_THAT(step_problems(step.directory, 1), IsEmpty());

  ExportOptions options;
  options.files.element = c.element;
  if (c.files > 1) options.files.max_file_bytes = 10'000;
  const TransformerConfig model = open_model(from.path()).config.model;
  export_model(step, run, model, to, options);
  const safetensors::Directory out = safetensors::open_directory(to);
  EXPECT_EQ(out.files.size() > 1, c.files > 1);
  EXPECT_EQ(out.tensors.size(), tensors.size());
  for (const RawTensor& tensor : tensors)
    EXPECT_TRUE(bytes_of(out, tensor.name) == tensor.bytes) << tensor.name;
  EXPECT_TRUE(std::filesystem::exists(to + "/tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(to + "/origin.json"));
  EXPECT_EQ(open_model(to).config.model.identity(), model.identity());
}

INSTANTIATE_TEST_SUITE_P(
    All, RoundTrip,
    ::testing::Values(Case{"Gpt2InF32", &gpt2_config, "F32", Element::f32, 1},
                      Case{"Gpt2InBf16AndTwoFiles", &gpt2_config, "BF16", Element::bf16, 2},
                      Case{"LlamaInBf16", &llama_config, "BF16", Element::bf16, 1},
                      Case{"MistralInBf16", &mistral_config, "BF16", Element::bf16, 1},
                      Case{"Qwen2InBf16AndTwoFiles", &qwen2_config, "BF16", Element::bf16, 2},
                      Case{"Qwen3InBf16", &qwen3_config, "BF16", Element::bf16, 1},
                      Case{"LlamaInF32AndTwoFiles", &llama_config, "F32", Element::f32, 2}),
    [](const auto& each) { return each.param.name; });

/// A box of a logical tensor, as HfSource reads it; -1 where it leaves memory as it was.
std::vector<float> read(const ModelFiles& model, const std::string& logical, const Shape& shape,
                        const Box& box) {
  HfSource source(model.files, model.views);
  std::vector<float> values(static_cast<std::size_t>(box.count()), -1);
  source.read({{HfSource::prefix + logical, DType::f32, shape, box, values.data()}}, 1, {});
  return values;
}

TEST(HfSource, TakesQueriesKeysAndValuesOutOfOneTransposedTensor) {
  const ScratchDirectory from;
  std::vector<RawTensor> tensors = toy_model(gpt2_config, "F32");
  write_model(from, gpt2_config, tensors);
  const ModelFiles model = open_model(from.path());
  std::vector<float> fused(32 * 96);
  std::memcpy(fused.data(),
              tensor_called(tensors, "transformer.h.1.attn.c_attn.weight").bytes.data(),
              fused.size() * sizeof(float));
  const Box box{Shape{3, 5}, Shape{20, 7}};  // rows: outputs
  const std::vector<float> key = read(model, "block.1.attention.key.weight", {32, 32}, box);
  for (std::size_t out = 0; out < 20; ++out)
    for (std::size_t in = 0; in < 7; ++in)
      ASSERT_EQ(key[out * 7 + in], fused[(5 + in) * 96 + 32 + 3 + out]);
}

TEST(HfSource, LeavesRowsThatTheFilesLackAsTheyAre) {
  const ScratchDirectory from;
  write_model(from, llama_config, toy_model(llama_config, "F32"));
  const std::vector<float> rows =
      read(open_model(from.path()), "embedding.weight", {40, 32}, {Shape{30, 0}, Shape{10, 32}});
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i] == -1, i >= 7 * 32) << i;
  const std::vector<float> beyond =
      read(open_model(from.path()), "embedding.weight", {80, 32}, {Shape{40, 0}, Shape{40, 32}});
  EXPECT_THAT(beyond, ::testing::Each(-1));
}

TEST(HfModel, WithTiedEmbeddingsMayHaveTheHeadAsWellIfItIsTheSame) {
  const ScratchDirectory folder, from;
  std::vector<RawTensor> tensors = toy_model(gpt2_config, "F32");
  RawTensor head = tensor_called(tensors, "transformer.wte.weight");
  head.name = "lm_head.weight";
  tensors.push_back(head);
  write_model(from, gpt2_config, tensors);
  import(from, folder / "same");
  tensors.back().bytes.back() ^= 1;
  write_model(from, gpt2_config, tensors);
  EXPECT_THAT(message_of([&] { import(from, folder / "other"); }),
              HasSubstr("tensors lm_head.weight and transformer.wte.weight differ, but the config "
                        "ties them"));
  EXPECT_THAT(list_steps(folder / "other"), IsEmpty());
}

TEST(HfModel, IsExportedOnceAndWithEveryNumberOrNotAtAll) {
  const ScratchDirectory folder, from;
  std::vector<RawTensor> tensors = toy_model(llama_config, "F32");
  const float large = 1e5f;
  std::memcpy(tensors.front().bytes.data() + 40, &large, sizeof large);
  write_model(from, llama_config, tensors);
  const std::string run = folder / "run", to = folder / "out";
  const OpenedStep step = import(from, run);
  const TransformerConfig model = open_model(from.path()).config.model;
  ExportOptions options;
  options.files.element = Element::f16;
  EXPECT_THAT(
      message_of([&] { export_model(step, run, model, to, options); }),
      HasSubstr("tensor " + tensors.front().name + ": element 10 is 100000, more than f16"));
  EXPECT_EQ(folder.files(), 1u);
  options.files.element = Element::f32;
  export_model(step, run, model, to, options);
  EXPECT_THAT(message_of([&] { export_model(step, run, model, to, options); }),
              HasSubstr("exists already"));
  EXPECT_THAT(message_of([&] { import(from, run); }), HasSubstr("has steps already"));
}

TEST(HfModel, ThatCannotBeKeptIsNotImported) {
  const ScratchDirectory folder, from;
  write_model(from, llama_config, toy_model(llama_config, "F32"));
  std::filesystem::create_symlink("nowhere", from / "LICENSE");
  EXPECT_THAT(message_of([&] { import(from, folder / "run"); }),
              HasSubstr("LICENSE is a link to nowhere, which is not there"));
  EXPECT_EQ(folder.files(), 0u);
  std::filesystem::remove(from / "config.json");
  ASSERT_EQ(::mkfifo((from / "config.json").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { open_model(from.path()); }),
              HasSubstr("config.json: cannot be read: it is missing, or no file"));
}

TEST(HfModel, ConfigFilesAndWhatIsKeptAreRefusedAtOnce) {
  const ScratchDirectory from;
  from.write("config.json", test::config_of("llama", R"(,"hidden_act":"relu","mlp_bias":true)"));
  from.write("model.safetensors", "cut");
  std::filesystem::create_symlink("nowhere", from / "LICENSE");
  const std::string message = message_of([&] { open_model(from.path()); });
  EXPECT_THAT(message, testing::AllOf(HasSubstr("config.json: hidden_act is \"relu\""),
                                      HasSubstr("config.json: mlp_bias is true"),
                                      HasSubstr("model.safetensors: has 3 bytes"),
                                      HasSubstr("LICENSE is a link to nowhere")));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 3) << message;
}

TEST(HfModel, CodeOfATokenizerIsNoted) {
  const ScratchDirectory from;
  write_model(from, llama_config, toy_model(llama_config, "F32"));
  EXPECT_THAT(open_model(from.path()).config.notes, IsEmpty());
  from.write("tokenizer_config.json",
             R"({"auto_map":{"AutoTokenizer":["tokenization_x.T",null]}})");
  EXPECT_THAT(open_model(from.path()).config.notes,
              testing::ElementsAre(testing::AllOf(HasSubstr("neither run nor exported"),
                                                  HasSubstr("tokenization_x.T"))));
  from.write("tokenizer_config.json", "not JSON");
  EXPECT_THAT(open_model(from.path()).config.notes, IsEmpty());
}

TEST(HfModel, AnExportTouchesNothingThatIsNotItsOwn) {
  const ScratchDirectory folder, from;
  write_model(from, llama_config, toy_model(llama_config, "F32"));
  const std::string run = folder / "run";
  const OpenedStep step = import(from, run);
  std::filesystem::create_directories(folder / "out.tmp");
  folder.write("out.tmp/mine", "1");
  folder.write("file.tmp", "2");
  export_model(step, run, open_model(from.path()).config.model, folder / "out", {});
  export_parameters(step, folder / "file", {});
  EXPECT_EQ(folder.read("out.tmp/mine"), "1");
  EXPECT_EQ(folder.read("file.tmp"), "2");
  EXPECT_EQ(folder.files(), 5u);
}

TEST(CheckpointExport, HasTheLogicalNames) {
  const ScratchDirectory folder, from;
  std::vector<RawTensor> tensors = toy_model(llama_config, "F32");
  write_model(from, llama_config, tensors);
  std::filesystem::create_directory(folder / "out");
  export_parameters(import(from, folder / "run"), folder / "out/model.safetensors", {});
  const safetensors::Directory out = safetensors::open_directory(folder / "out");
  EXPECT_EQ(out.tensors.size(), tensors.size());
  EXPECT_TRUE(bytes_of(out, "block.1.mlp.up.weight") ==
              tensor_called(tensors, "model.layers.1.mlp.up_proj.weight").bytes);
}

TEST(CheckpointExport, TakesTensorsOfAnyDims) {
  const ScratchDirectory folder;
  std::filesystem::create_directories(folder / "step");
  const ToyStep toy(folder / "step", 7);
  OpenedStep step{folder / "step", toy.manifest};
  std::erase_if(step.manifest.tensors, [](const auto& each) { return each.dtype != DType::f32; });
  std::vector<Manifest::Tensor> expected = step.manifest.tensors;
  for (Manifest::Tensor& tensor : step.manifest.tensors) tensor.name = "parameters/" + tensor.name;
  std::filesystem::create_directory(folder / "out");
  export_parameters(step, folder / "out/model.safetensors", {});
  const safetensors::Directory out = safetensors::open_directory(folder / "out");
  ASSERT_EQ(out.tensors.size(), expected.size());
  for (const Manifest::Tensor& tensor : expected) {
    Box whole{tensor.global, tensor.global};
    for (int d = 0; d < tensor.global.dims(); ++d) whole.begin[d] = 0;
    const auto bytes = toy.expected(tensor, whole);
    EXPECT_EQ(out.find(tensor.name)->shape, tensor.global);
    EXPECT_TRUE(bytes_of(out, tensor.name) ==
                std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
        << tensor.global;
  }
}

TEST(KeptFiles, AreReplacedWholeAndGoWithTheRun) {
  const ScratchDirectory folder, from;
  from.write("config.json", llama_config);
  from.write("tokenizer.json", "1");
  from.write("code.py", "import os");
  const std::string run = folder / "run", other = folder / "other";
  std::filesystem::create_directories(run);
  std::filesystem::create_directories(other);
  keep_files(from.path(), run, {{"origin/model", "x"}});
  from.write("tokenizer.json", "2");
  keep_files(from.path(), run, {{"origin/model", "y"}});
  EXPECT_EQ(folder.read("run/hf/tokenizer.json"), "2");
  EXPECT_FALSE(std::filesystem::exists(run + "/hf/code.py"));
  EXPECT_FALSE(std::filesystem::exists(run + "/hf.tmp"));
  keep_kept(run, other);
  EXPECT_EQ(folder.read("other/hf/tokenizer.json"), "2");
  EXPECT_EQ(kept_facts(other), (KeyValues{{"origin/model", "y"}}));
  EXPECT_EQ(directory_of_config(from.path(), run), from.path());
  std::filesystem::remove(from / "config.json");
  EXPECT_EQ(directory_of_config(from.path(), run), run + "/hf");
  EXPECT_EQ(directory_of_config(from.path(), folder / "none"), "");
}

TEST(KeptFiles, ReplaceNothingThatIsOfNoRun) {
  const ScratchDirectory folder, from;
  from.write("config.json", llama_config);
  const std::string run = folder / "run";
  std::filesystem::create_directories(run + "/hf");
  keep_files(from.path(), run, {});  // empty
  std::filesystem::remove(run + "/hf/origin.json");
  folder.write("run/hf/notes", "mine");
  EXPECT_THAT(message_of([&] { keep_files(from.path(), run, {}); }),
              HasSubstr("run/hf: exists, and is not what a run keeps of a Hugging Face model"));
  EXPECT_EQ(folder.read("run/hf/notes"), "mine");
  EXPECT_EQ(folder.files(), 1u);
}

}  // namespace
}  // namespace trireme::interop
