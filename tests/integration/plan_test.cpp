// trireme plan: its command line is one that train_gpt accepts, with the bytes that it says; bad
// input is refused by one line each.
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json.h"
#include "runtime/core/show_bytes.h"
#include "tests/support/as_one_line.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Planned : public testing::Test {
 protected:
  OutcomeApart run(const std::string& command) const { return run_apart(command, folder_ / "log"); }
  OutcomeApart plan(const std::string& words) const {
    return run(TRIREME_BIN_DIR "/trireme plan " + words);
  }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  ScratchDirectory folder_;
};

constexpr const char* seventy_billion =
    "num-layers = 80\nhidden-size = 8192\nffn-hidden-size = 28672\nnum-attention-heads = 64\n"
    "num-query-groups = 8\nseq-length = 4096\nvocab-size = 128256\nnormalization = \"RMSNorm\"\n"
    "activation = \"swiglu\"\nposition-embedding-type = \"rope\"\ndisable-bias-linear = true\n"
    "untie-embeddings-and-output-weights = true\n";

/// Words of a JSON array behind `train_gpt`.
std::string words_of_train_gpt(const Json& command) {
  std::string words;
  bool behind = false;
  for (const Json& word : std::get<Json::Array>(command.value)) {
    const std::string& text = std::get<std::string>(word.value);
    if (behind) words += " " + text;
    behind = behind || text == "train_gpt";
  }
  return words;
}

TEST_F(Planned, CommandLinesAreAcceptedByTrainGptAndPlanTheSameBytes) {
  const std::string config = file("model.toml",
                                  "num-layers = 4\nhidden-size = 256\n"
                                  "num-attention-heads = 8\nseq-length = 128\n");
  for (const std::string words :
       {"--model gpt2-124m --cluster 8xH100-80 --global-batch-size 64",
        "--model llama-1b --cluster 2x4xH100-80 --global-batch-size 32 --pin pp=2",
        "--cluster 8xH100-80 --global-batch-size 64 --tokens 1B --pin tp=2 --model-config "}) {
    const bool has_file = words.ends_with("--model-config ");
    const OutcomeApart found = plan(words + (has_file ? config : "") + std::string(" --json"));
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    const Json json = parse_json(found.output);
    const Json& best = std::get<Json::Array>(json.find("best")->value).front();
    Index most = 0;
    for (const Json& rank : std::get<Json::Array>(best.find("ranks")->value))
      most = std::max(most, std::get<Index>(rank.find("device_bytes")->value));
    const std::string program = TRIREME_BIN_DIR "/train_gpt";
    const OutcomeApart job =
        run(program + words_of_train_gpt(*json.find("command")) + " --plan-only=8,H100-SXM");
    EXPECT_EQ(job.exit_code, 0) << job.errors;
    EXPECT_THAT(job.output, HasSubstr(": " + show_bytes(most) + " of its device"));
  }
}

TEST_F(Planned, ScreenEndsWithTheCommandToPaste) {
  const OutcomeApart found = plan(
      "--model gpt2-124m --cluster 2x8xH100-80 --global-batch-size 512 --tokens 10e9 --price 2");
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_THAT(found.output,
              HasSubstr("\nmpirun -np 16 --map-by ppr:8:node train_gpt --model "
                        "gpt2-124m --global-batch-size 512 \\\n  --train-iters 19074"));
}

TEST_F(Planned, ModelsOfHuggingFaceAreThoseOfTheirOptions) {
  file("config.json",
       R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 256, "num_hidden_layers": 4,
           "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 512,
           "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0})");
  const std::string config =
      file("model.toml",
           "num-layers = 4\nhidden-size = 256\nffn-hidden-size = 512\nnum-attention-heads = 8\n"
           "num-query-groups = 4\nseq-length = 128\nvocab-size = 512\n"
           "normalization = \"RMSNorm\"\nactivation = \"swiglu\"\ndisable-bias-linear = true\n"
           "position-embedding-type = \"rope\"\nuntie-embeddings-and-output-weights = true\n");
  const std::string rest = " --cluster 8xH100-80 --global-batch-size 64 --json --pin chunks=1";
  const OutcomeApart files = plan("--seq-length 128 --hf " + folder_.path() + rest);
  const OutcomeApart options = plan("--model-config " + config + rest);
  ASSERT_EQ(files.exit_code, 0) << files.errors;
  ASSERT_EQ(options.exit_code, 0) << options.errors;
  const Json one = parse_json(files.output), other = parse_json(options.output);
  for (const char* field : {"parameters", "tokens_per_step", "best"})
    EXPECT_EQ(to_text(*one.find(field)), to_text(*other.find(field))) << field;
  EXPECT_THAT(words_of_train_gpt(*one.find("command")), StartsWith(" --load-hf " + folder_.path()));
  EXPECT_THAT(words_of_train_gpt(*one.find("command")), HasSubstr(" --seq-length 128"));
  const OutcomeApart without = plan("--hf " + folder_.path() + rest);
  EXPECT_EQ(without.exit_code, 64);
  EXPECT_EQ(without.errors, "trireme: --hf " + folder_.path() +
                                ": give --seq-length, at most 128; it is not taken from "
                                "config.json\n");
  EXPECT_THAT(plan("--seq-length 129 --hf " + folder_.path() + rest).errors,
              HasSubstr("--seq-length 129 is too long: max_position_embeddings in config.json of "
                        "--hf "));
}

TEST_F(Planned, OnTooFewGpusIsRefusedWithTheLeastNeedAndWhatWouldFit) {
  const std::string model = "--model-config " + file("70b.toml", seventy_billion);
  const OutcomeApart found = plan(model + " --cluster 8xH100-80 --global-batch-size 512");
  EXPECT_EQ(found.exit_code, 64) << found.errors;
  const std::string text = as_one_line(found.output);
  EXPECT_THAT(text, HasSubstr("fits 8 H100-SXM"));
  EXPECT_THAT(text, HasSubstr(": least 1"));  // hundred and some GiB a GPU
  EXPECT_THAT(text, HasSubstr(". It fits on 24 GPUs: tp "));
}

TEST_F(Planned, BadInputIsOneLineEach) {
  const std::string contradiction = file(
      "cluster.json", R"({"groups": [{"gpu": "H100", "nodes": 2, "per_node": 8, "gpus": 8}]})");
  const std::string rest = " --model tiny --global-batch-size 8 ";
  const std::string loads = file("loads.toml", "load-hf = \"there\"\n");
  const std::pair<std::string, const char*> wrong[] = {
      {"--cluster 8x8xH9000" + rest, "trireme: --cluster 8x8xH9000: "},
      {"--cluster somewhere" + rest, "is no file, and no cluster: expected NODESxGPUSxGPU"},
      {"--cluster " + contradiction + rest,
       "groups[0].gpus is 8, which contradicts nodes 2 x per_node 8"},
      {rest, "trireme: --cluster is missing"},
      {"--cluster 8xH100 --try 2",
       "trireme: --model PRESET, --model-config FILE or --hf DIR is missing: --try is for layouts"},
      {"--cluster 8xH100 --global-batch-size 8 --hf missing",
       "trireme: --hf missing: there is no such directory"},
      {"--cluster 8xH100 --tokens 10X" + rest,
       "trireme: --tokens 10X: expected a number > 0, such "},
      {"--cluster 8xA100" + rest,
       "is not one GPU but several: expected one of A100-40GB, A100-80GB"},
      {"--cluster 8xH100 --hf " + folder_.path() + rest, "which says what the model is"},
      {"--cluster 8xH100 --global-batch-size 8 --hf ''", "trireme: --hf needs a value: DIR"},
      {"--cluster 8xH100 --global-batch-size 8 --model-config " + loads,
       ": load-hf is not read for a plan; give its directory by --hf as well"},
      {"--cluster 8xH100 --model tiny", "trireme: --global-batch-size is missing"},
      {"--cluster 8xH100 --model tiny --global-batch-size 4M", "--global-batch-size 4M: expected"},
      {"--cluster 8xH100 --model tiny --global-batch-size 0", "--global-batch-size 0: expected"},
      {"--cluster 8xH100 --seq-length 8k" + rest, "--seq-length 8k: expected a whole number >= 1"},
      {"", "8xH100-80 is one node. Without --model it prints which presets fit"},
      {"--cluster 8xH100 --price H200=2" + rest, "trireme: --price H200=2: 'H200=2': the cluster "},
      {"--cluster 8xH100 --pin xp=2" + rest, "trireme: --pin xp=2: 'xp' is no word of a layout"},
      {"--cluster 8xH100 --explain 'tp'" + rest, "trireme: --explain tp: 'tp' needs a value"},
      {"--cluster 8xH100 --model-config missing --global-batch-size 8",
       "trireme: --model-config missing: cannot be read"},
      {"--cluster 8xH100 --memory-margin 1" + rest, "trireme: --memory-margin 1: "},
      {"--cluster 8xH100 --ranks 8" + rest, "trireme: --ranks 8 goes with --calibrate only"},
      {"--cluster 8xH100 --mpirun true" + rest, "trireme: --mpirun goes with --calibrate or --try"},
      {"--cluster 8xH100 --mpirun true --try 2 --explain 'tp 2'" + rest,
       "trireme: --try 2 does not go with --explain"}};
  for (const auto& [words, message] : wrong) {
    const OutcomeApart found = plan(words);
    EXPECT_EQ(found.exit_code, 64) << words;
    EXPECT_THAT(found.errors, HasSubstr(message)) << words;
    EXPECT_EQ(std::count(found.errors.begin(), found.errors.end(), '\n'), 1) << found.errors;
    EXPECT_EQ(found.output, "");
  }
  EXPECT_THAT(as_one_line(plan("--cluster 8xH100 --pin tp=3" + rest).output),
              HasSubstr("is legal: "));
}

constexpr const char* unequal_cluster =
    R"({"groups": [{"gpu": "H100-80", "nodes": 1, "per_node": 8, "price": 2.5},
                   {"gpu": "4090", "nodes": 2, "per_node": 4, "price": 0.35}]})";

TEST_F(Planned, CommandLinesForUnequalGpusAreAcceptedByTrainGpt) {
  const std::string cluster = " --cluster " + file("unequal.json", unequal_cluster) + " --json";
  const std::pair<std::string, const char*> plans[] = {
      {"--model gpt2-124m --global-batch-size 48 --pin dp=16", "--data-parallel-shares"},
      {"--model gpt2-124m --global-batch-size 64 --pin pp=2 --pin dp=8", "--stage-speeds"}};
  for (const auto& [words, option] : plans) {
    const OutcomeApart found = plan(words + cluster);
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    const Json json = parse_json(found.output);
    const std::string command = words_of_train_gpt(*json.find("command"));
    EXPECT_THAT(command, HasSubstr(option));
    const std::string program = TRIREME_BIN_DIR "/train_gpt";
    const OutcomeApart job = run(program + command + " --plan-only=16,H100-SXM");
    EXPECT_EQ(job.exit_code, 0) << job.errors << command;
    Index ranks = 0;
    for (const Json& run : std::get<Json::Array>(json.find("hosts")->value))
      ranks += std::get<Index>(run.find("ranks")->value);
    EXPECT_EQ(ranks, 16);
  }
}

TEST_F(Planned, OfUnequalGpusSaysWhatToLeaveOutAndWhatCannotBeLaunched) {
  const OutcomeApart found =
      plan("--model gpt2-124m --global-batch-size 64 --tokens 1e9 --cluster " +
           file("unequal.json", unequal_cluster));
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  const std::string text = found.output + as_one_line(found.output);
  for (const char* part : {"8 H100-SXM of 79.10 GiB, 1 node", " + 8 RTX-4090 of ", "total time",
                           "\nchoices of GPUs, ", "   8 H100-80  ", "   8 4090  ", "  time x ",
                           "  cost x ", "cheapest", " planned exactly, ", "\nmpirun -np "})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST_F(Planned, OfUnequalGpusRefusesWhatItDoesNotKnowInOneLine) {
  const std::string rest = " --model tiny --global-batch-size 8 --cluster ";
  const std::string two = file("two.json", unequal_cluster);
  std::string groups;
  for (int nodes = 1; nodes <= 5; ++nodes)
    groups += str(nodes == 1 ? "" : ",", R"({"gpu": "H100", "nodes": 1, "per_node": )", nodes, "}");
  const std::string five = file("five.json", "{\"groups\": [" + groups + "]}");
  const std::string config = file("shares.toml", "data-parallel-shares = \"2,1\"\n");
  const std::pair<std::string, const char*> wrong[] = {
      {rest + five, "has 5 groups of unequal nodes; at most 4 are planned together"},
      {rest + two + " --explain 'tp 2'", "has unequal nodes, which --explain does not know"},
      {rest + two + " --pin v=2", "are planned with one virtual stage a rank; leave out v"},
      {rest + two + " --pin schedule=interleaved", "with the schedule 1f1b; leave out schedule"},
      {rest + two + " --model-config " + config,
       "for which --data-parallel-shares of --model-config is sought; leave it out there"},
      {rest + file("same.json", R"({"groups": [{"gpu": "H100", "nodes": 1, "per_node": 8},
                                              {"gpu": "H100", "nodes": 1, "per_node": 8}]})"),
       "groups 1 and 2 are of the same nodes; make them one with \"nodes\": 2"}};
  for (const auto& [words, message] : wrong) {
    const OutcomeApart found = plan(words);
    EXPECT_EQ(found.exit_code, 64) << words;
    EXPECT_THAT(found.errors, HasSubstr(message)) << words;
    EXPECT_EQ(std::count(found.errors.begin(), found.errors.end(), '\n'), 1) << found.errors;
    EXPECT_EQ(found.output, "");
  }
}

TEST_F(Planned, WithoutAModelNamesThePresetsThatFit) {
  const OutcomeApart found = plan("--cluster 1x4090 --price 0.35 --pin chunks=8");
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_THAT(found.output, HasSubstr("\ngpt2-124m "));
  EXPECT_THAT(found.output, Not(HasSubstr("\nllama-8b ")));
  EXPECT_THAT(as_one_line(found.output), ContainsRegex("do not fit .*llama-8b \\(needs "));
}

TEST_F(Planned, LayoutsAreExplained) {
  const OutcomeApart found =
      plan("--model tiny --cluster 8xH100 --global-batch-size 64 --explain 'tp 2 pp 2'");
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_THAT(found.output, HasSubstr("\ntp 2  pp 2 "));
  EXPECT_THAT(found.output, HasSubstr("\nbeside the chosen one: "));
}

}  // namespace
}  // namespace trireme::test
