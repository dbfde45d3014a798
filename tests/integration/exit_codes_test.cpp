// One meaning of each exit code in all commands: 64 where nothing was done because of what the
// command line says, 1 where work has failed or its answer is no.
#include <filesystem>
#include <fstream>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/checkpoint_jobs.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

/// Of the words in capitals, GONE is nothing, FOREIGN a directory with a file, DATA a corpus, CUT a
/// part of one, RUN has a step, and BAD a step that is damaged; NEW can be made. TRAIN is the
/// trainer with its options, PROGRAM without data; other lines are words of `trireme`.
constexpr std::pair<int, const char*> table[] = {
    {64, ""},
    {64, "zzz"},
    {64, "help zzz"},
    {64, "data zzz"},
    {0, "help data"},
    {64, "data prepare --input GONE --output NEW"},
    {64, "data prepare --input FOREIGN --output NEW"},
    {64, "data decode GONE"},
    {64, "data decode DATA --document 1000000"},
    {64, "data decode DATA --tokenizer GONE"},
    {0, "data decode DATA --tokens 0:1"},
    {64, "data inspect GONE"},
    {1, "data inspect CUT"},
    {0, "data inspect DATA"},
    {64, "checkpoint list GONE"},
    {64, "checkpoint list FOREIGN"},
    {1, "checkpoint list BAD"},
    {0, "checkpoint list RUN"},
    {64, "checkpoint show GONE"},
    {64, "checkpoint show RUN --step 9"},
    {0, "checkpoint show RUN"},
    {64, "checkpoint verify GONE"},
    {64, "checkpoint verify RUN --step 9"},
    {1, "checkpoint verify BAD"},
    {0, "checkpoint verify RUN"},
    {64, "checkpoint diff RUN GONE"},
    {1, "checkpoint diff RUN BAD"},
    {0, "checkpoint diff RUN RUN"},
    {64, "checkpoint export GONE --output NEW"},
    {1, "checkpoint export BAD --output NEW"},
    {64, "checkpoint prune FOREIGN --keep-last 1"},
    {0, "checkpoint prune RUN --keep-last 1 --dry-run"},
    {64, "hf show GONE"},
    {64, "hf show FOREIGN"},
    {64, "hf import GONE --output NEW"},
    {64, "hf export GONE --output NEW"},
    {64, "hf export RUN --output NEW --tokenizer GONE"},
    {64, "plan --model none --cluster H100 --global-batch-size 8"},
    {64, "plan --model llama-70b --cluster GONE --global-batch-size 8"},
    {64, "plan --model llama-70b --cluster 4090 --global-batch-size 8"},
    {64, "run -n 1 --run-dir NEW -- GONE"},
    {64, "run -n 1 --run-dir NEW --hostfile GONE -- true"},
    {64, "run -n 1 -- TRAIN --save FOREIGN"},
    {64, "stop FOREIGN"},
    {64, "status FOREIGN"},
    {64, "report FOREIGN"},
    {64, "report FOREIGN --json"},
    {64, "nodes FOREIGN"},
    {64, "nodes release FOREIGN host"},
    {64, "nodes clean FOREIGN"},
    {64, "chaos FOREIGN --yes"},
    {64, "preflight --hostfile GONE"},
    {64, "preflight --against GONE"},
    {64, "verify --ranks 2 -- GONE"},
    {64, "verify --ranks 2 --directory GONE -- TRAIN"},
    {64, "TRAIN --load-hf GONE"},
    {64, "TRAIN --config GONE"},
    {64, "TRAIN --save FOREIGN/notes"},
    {64, "PROGRAM --data-path GONE"},
    {64, "PROGRAM"},
    {0, "TRAIN"},
    {64, "TRAIN --generate 1 --prompts GONE"},
    {64, "TRAIN --generate 1 --tokenizer GONE"},
};

TEST(ExitCodes, MeanTheSameInAllCommands) {
  const CheckpointJobs jobs(tiny_gpt);
  jobs.train({"one", 1, "--micro-batch-size 8"}, "--train-iters 1 --save " + jobs / "run");
  fs::copy(jobs / "run", jobs / "bad", fs::copy_options::recursive);
  fs::resize_file(jobs / "bad/step-000001/shard-00000.h5", 100);
  for (const char* suffix : {".bin", ".idx"})
    fs::copy_file(jobs.data + suffix, jobs / "cut" + suffix);
  fs::resize_file(jobs / "cut.bin", 100);
  fs::create_directory(jobs / "foreign");
  std::ofstream(jobs / "foreign/notes") << "mine\n";
  const std::pair<const char*, std::string> words[] = {
      {"TRAIN", jobs.program("--train-iters 1")},
      {"PROGRAM", TRIREME_BIN_DIR "/train_gpt --global-batch-size 8 --train-iters 1 " + jobs.model},
      {"GONE", jobs / "gone"},
      {"FOREIGN", jobs / "foreign"},
      {"DATA", jobs.data},
      {"CUT", jobs / "cut"},
      {"RUN", jobs / "run"},
      {"BAD", jobs / "bad"},
      {"NEW", jobs / "new"}};
  for (const auto& [code, line] : table) {
    const std::string given = line;
    const bool trains = given.starts_with("TRAIN") || given.starts_with("PROGRAM");
    std::string command = trains ? "timeout 120 " + given : CheckpointJobs::trireme(given);
    for (const auto& [word, meaning] : words)
      command = std::regex_replace(command, std::regex("\\b" + std::string(word) + "\\b"), meaning);
    const Outcome outcome = jobs.run(command);
    EXPECT_EQ(outcome.exit_code, code) << line << '\n' << outcome.output;
    EXPECT_FALSE(fs::exists(jobs / "new/model.safetensors")) << line;
  }
}

}  // namespace
}  // namespace trireme::test
