// trireme hf show: a model of Hugging Face as options, and everything that keeps it from training.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/interop/hf_config.h"
#include "runtime/interop/names.h"
#include "runtime/store/safetensors/writer.h"
#include "tests/interop/hf_configs.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Qwen3, but small.
const std::string small = interop::with(
    interop::with(interop::with(interop::qwen3_06b, "vocab_size", "64"), "num_hidden_layers", "1"),
    "hidden_size", "32");

class HfShow : public testing::Test {
 protected:
  Outcome run(const std::string& words = "") const {
    return run_shell(TRIREME_BIN_DIR "/trireme hf show " + folder_.path() + words, log_ / "output");
  }
  /// Weights of zeros for a config.json, but for the last `left_out` tensors.
  void write_weights(const std::string& text, std::size_t left_out = 0) const {
    std::vector<std::string> problems;
    const interop::HfConfig config = interop::parse_hf_config(text, problems);
    std::vector<safetensors::WrittenTensor> tensors;
    for (const interop::HfView& view : interop::hf_views(config.model_type, config.model))
      tensors.push_back({view.hf, view.hf_shape,
                         [columns = view.hf_shape.back()](Index, Index rows, float* data) {
                           std::fill_n(data, rows * columns, 0.0f);
                         }});
    tensors.resize(tensors.size() - left_out);
    safetensors::write_model(folder_.path(), tensors, {});
  }
  ScratchDirectory folder_, log_;
};

// As --load-hf does.
TEST_F(HfShow, RefusesFilesThatCannotBeKept) {
  folder_.write("config.json", small);
  write_weights(small);
  std::filesystem::create_symlink("nowhere", folder_ / "LICENSE");
  const Outcome shown = run();
  EXPECT_EQ(shown.exit_code, 64) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("LICENSE is a link to nowhere, which is not there"));
}

TEST_F(HfShow, PrintsOptionsTensorsAndWhatIsNotUsed) {
  folder_.write("config.json", small);
  folder_.write("tokenizer.json", "{}");
  folder_.write("modeling_own.py", "raise SystemExit");
  write_weights(small);
  const Outcome shown = run();
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output,
              AllOf(HasSubstr("qwen3: 1 layers, width 32, 16 heads in 8 groups of 128 channels"),
                    HasSubstr("--kv-channels 128"), HasSubstr("--qk-layernorm"),
                    HasSubstr("--position-embedding-type rope"), HasSubstr("--rotary-base 1000000"),
                    HasSubstr("--seq-length: at most 32768, its positions"),
                    HasSubstr("weights: 13 tensors in 1 file"),
                    HasSubstr("kept beside a run: tokenizer.json"),
                    HasSubstr("code, never run: modeling_own.py"), HasSubstr("keys not used: ")));
  const json object = json::parse(run(" --json").output);
  EXPECT_EQ(object["model_type"], "qwen3");
  EXPECT_EQ(object["options"]["--num-query-groups"], "8");
  EXPECT_EQ(object["tensors"], 13);
  EXPECT_EQ(object["code"], json({"modeling_own.py"}));
  EXPECT_EQ(object["problems"], json::array());
}

TEST_F(HfShow, NamesEverythingThatIsNotUnderstood) {
  folder_.write("config.json",
                interop::with(interop::with(small, "hidden_act", "\"relu\""), "num_experts", "8"));
  const Outcome shown = run();
  EXPECT_EQ(shown.exit_code, 64);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("config.json: hidden_act is \"relu\""),
                                  HasSubstr("config.json: num_experts is 8"),
                                  HasSubstr("model.safetensors"), Not(HasSubstr("options: "))));
}

TEST_F(HfShow, NamesTensorsThatAreMissing) {
  folder_.write("config.json", small);
  write_weights(small, 1);
  const Outcome shown = run();
  EXPECT_EQ(shown.exit_code, 64);
  EXPECT_THAT(shown.output, HasSubstr("model.norm.weight"));
}

TEST_F(HfShow, NeedsADirectory) {
  const Outcome shown =
      run_shell(TRIREME_BIN_DIR "/trireme hf show " + folder_ / "no", log_ / "output");
  EXPECT_EQ(shown.exit_code, 64);
  EXPECT_THAT(shown.output, HasSubstr("/no: there is no such directory"));
}

}  // namespace
}  // namespace trireme::test
