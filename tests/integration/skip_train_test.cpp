// train_gpt --skip-train: the same figures on every layout, whose ranks are threads of the test but
// for one that users' mpirun starts.
#include <cmath>
#include <fstream>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "runtime/core/show_bytes.h"
#include "tests/support/gpt_ranks.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

const std::string model =
    "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 ";

class SkipTrain : public testing::Test {
 protected:
  SkipTrain() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += str(i * i, i % 7 == 0 ? ".\n" : " ");
    std::ofstream(folder_ / "a.txt") << text;
    std::ofstream(folder_ / "b.txt") << text.substr(0, 3000) << "something else";
    for (const char* name : {"a", "b"})
      run_shell(TRIREME_BIN_DIR "/trireme data prepare --input " + (folder_ / name) +
                    ".txt --output " + (folder_ / name),
                folder_ / "log");
  }
  Outcome run(const std::string& options, int ranks = 1) const {
    const std::string start =
        ranks == 1 ? "" : str(TRIREME_MPIRUN " --timeout 120 -np ", ranks, " ");
    return run_shell(start + TRIREME_BIN_DIR "/train_gpt " + options, folder_ / "log");
  }
  /// The lines of --metrics of a job that evaluates.
  std::vector<nlohmann::json> evaluate(const std::string& options, int ranks = 1) const {
    const Outcome outcome = run(evaluation(options), ranks);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("gradients 0 B, optimizer 0 B"));
    return lines();
  }
  std::vector<nlohmann::json> evaluate_on_threads(const std::string& options, int ranks) const {
    EXPECT_THAT(train_gpt_on_threads(ranks, evaluation(options)),
                HasSubstr("gradients 0 B, optimizer 0 B"));
    return lines();
  }
  std::string evaluation(const std::string& options) const {
    std::ofstream(metrics_, std::ios::trunc).close();
    return "--skip-train --metrics " + metrics_ + " " + options;
  }
  std::vector<nlohmann::json> lines() const {
    std::ifstream in(metrics_);
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }

  ScratchDirectory folder_;
  const std::string metrics_ = folder_ / "metrics.jsonl";
};

TEST_F(SkipTrain, TheSameFiguresOnEveryLayoutOfEachFileAndTheirBlend) {
  const std::string run_directory = folder_ / "run";
  const Outcome trained =
      run(model + "--train-iters 3 --data-path " + (folder_ / "a") + " --save " + run_directory);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string weights = "--load " + run_directory + " --use-checkpoint-args ";
  const std::string data =
      "--data-path 1 " + (folder_ / "a") + " 3 " + (folder_ / "b") + " --split 0,1 ";
  const std::string text = "--generate 20 --temperature 0 --output " + (folder_ / "text") + " ";
  const auto expected = evaluate(weights + data + text);
  const std::string continued = folder_.read("text");
  ASSERT_EQ(expected.size(), 3u);
  EXPECT_EQ(expected[1]["targets"], 3013);
  EXPECT_EQ(expected[0]["step"], 3);
  EXPECT_EQ(expected[2]["evaluated"], "blend");
  const auto loss = [](const nlohmann::json& line) { return line["valid_loss"].get<double>(); };
  EXPECT_DOUBLE_EQ(loss(expected[2]), (loss(expected[0]) + 3 * loss(expected[1])) / 4);
  for (const nlohmann::json& line : expected)
    EXPECT_DOUBLE_EQ(line["bits_per_byte"].get<double>(), loss(line) / std::log(2));
  const auto expect_the_same = [&](const auto& found, const std::string& layout) {
    ASSERT_EQ(found.size(), 3u) << layout;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(loss(found[i]), loss(expected[i]), 2e-7 * loss(expected[i])) << layout;
  };
  expect_the_same(evaluate(weights + data + "--tp 2", 2), "--tp 2 under mpirun");
  for (const char* layout : {"--pp 2", "", "--micro-batch-size 2 --tp 2"})
    expect_the_same(evaluate_on_threads(weights + data + layout, 2), layout);
  const std::string exported = folder_ / "model";  // and as a model of Hugging Face
  const Outcome written =
      run_shell(TRIREME_BIN_DIR "/trireme hf export " + run_directory + " --output " + exported,
                folder_ / "log");
  ASSERT_EQ(written.exit_code, 0) << written.output;
  const auto found = evaluate("--load-hf " + exported + " --seq-length 32 " + data + text);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(folder_.read("text"), continued);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(loss(found[i]), loss(expected[i]));
    EXPECT_EQ(found[i]["bits_per_byte"], expected[i]["bits_per_byte"]);
  }
}

TEST_F(SkipTrain, RefusesDataOfAnotherTokenizerThanTheCheckpoints) {
  const Outcome trained = run(model + "--train-iters 1 --data-path " + (folder_ / "a") +
                              " --save " + (folder_ / "run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string other_sidecar =
      std::regex_replace(folder_.read("b.json"), std::regex("\"bytes\""), "\"00bb\"");
  std::ofstream(folder_ / "b.json") << other_sidecar;
  const std::string weights = "--load " + (folder_ / "run") + " --use-checkpoint-args ";
  for (const char* evaluation : {"--skip-train ", "--train-iters 0 --eval-interval 1 "}) {
    const Outcome other = run(weights + evaluation + "--split 0,1 --data-path " + (folder_ / "b"));
    EXPECT_EQ(other.exit_code, 64) << other.output;
    EXPECT_THAT(other.output, HasSubstr("tokenizer is 00bb here and bytes in the checkpoint; "
                                        "the file is " +
                                        (folder_ / "b.json")));
  }
}

TEST_F(SkipTrain, OfBf16LoadsOnlyBf16) {
  const std::string run_directory = folder_ / "run";
  const std::string data = "--data-path " + (folder_ / "a") + " --split 90,10 ";
  const Outcome trained = run(model + "--bf16 --train-iters 40 --lr 1e-2 --lr-warmup-iters 2 " +
                              data + "--save " + run_directory);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string weights = "--load " + run_directory + " --use-checkpoint-args ";
  const auto loss = [&](const std::string& options, int ranks) {
    const auto found = ranks == 1 ? evaluate(weights + data + options)
                                  : evaluate_on_threads(weights + data + options, ranks);
    return found.size() == 1 ? found[0]["valid_loss"].get<double>() : 0;
  };
  const double expected = loss("--bf16=false ", 1);
  EXPECT_LT(expected, 0.8 * std::log(256));  // it has learned something
  EXPECT_NEAR(loss("", 1), expected, 0.01 * expected);
  for (const char* layout : {"--tp 2", "--use-distributed-optimizer"})
    EXPECT_NEAR(loss(layout, 2), expected, 0.01 * expected) << layout;
}

TEST_F(SkipTrain, APlanShowsTheSameMemory) {
  const Outcome plan = run(model + "--skip-train --plan-only=4 --tp 2");
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
  EXPECT_THAT(plan.output, HasSubstr("gradients 0 B, optimizer 0 B"));
}

TEST_F(SkipTrain, RefusesWhatItCannotDo) {
  const Outcome without =
      run(model + "--skip-train --load " + (folder_ / "none") + " --data-path " + (folder_ / "a"));
  EXPECT_EQ(without.exit_code, 64) << without.output;
  EXPECT_THAT(without.output, HasSubstr("--load " + (folder_ / "none")));
  const Outcome empty = run(model + "--skip-train --load " + folder_.path() + " --data-path " +
                            (folder_ / "a") + " --split 1");
  EXPECT_EQ(empty.exit_code, 64) << empty.output;
  EXPECT_THAT(empty.output, HasSubstr("--split 1"));
}

}  // namespace
}  // namespace trireme::test
