// Ranks that were started with different options, have different files, trace different models or
// end early: one message that names the ranks and what each has, and never a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

constexpr int configuration = 64, failure = 1;

class HostileRanks : public testing::Test {
 protected:
  HostileRanks() {
    folder_.write("text", std::string(3000, 'a') + std::string(3000, 'b'));
    folder_.write("TEXT", std::string(3000, 'A') + std::string(3000, 'B'));
    for (const std::string name : {"text", "TEXT"})
      run_shell(str(TRIREME_BIN_DIR "/trireme data prepare --input ", folder_ / name, " --output ",
                    folder_ / name + ".tokens"),
                folder_ / "log");
  }

  /// Two ranks of train_gpt, each with options of its own; {} is replaced by the folder of the
  /// test.
  Outcome train(const std::string& options_0, const std::string& options_1) const {
    const std::string program =
        TRIREME_BIN_DIR "/train_gpt --num-layers 2 --num-attention-heads 2 --seq-length 16 ";
    return run_shell(str(mpirun(), "-np 1 ", program, in_folder(options_0), " : -np 1 ", program,
                         in_folder(options_1)),
                     folder_ / "log");
  }
  Outcome uneven(const std::string& what, int ranks, const std::string& options) const {
    return run_shell(str(mpirun(), "-np ", ranks, " ", TRIREME_UNEVEN_RANKS,
                         " --train-iters 2 --log-level quiet --uneven ", what, " ", options),
                     folder_ / "log");
  }

  std::string in_folder(std::string options) const {
    for (std::size_t at; (at = options.find("{}")) != std::string::npos;)
      options.replace(at, 2, folder_.path());
    return options;
  }

  ScratchDirectory folder_;

 private:
  static std::string mpirun() { return TRIREME_MPIRUN " --timeout 100 "; }
};

/// Said once, by all ranks together.
void expect_once(const Outcome& outcome, int exit_code, const std::string& sentence) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
  EXPECT_EQ(count(outcome.output, sentence), 1) << sentence << "\n" << outcome.output;
  if (exit_code == configuration) {
    EXPECT_EQ(count(outcome.output, "this configuration cannot run: 1 problem\n"), 1)
        << outcome.output;
  }
}

TEST_F(HostileRanks, DifferentOptionsAreRefusedWithBothValues) {
  const std::string same = " must be the same on all ranks: rank 0 has ";
  folder_.write("a.toml", "lr = 1e-3\n");
  folder_.write("b.toml", "lr = 2e-1\n");
  const struct {
    std::string options_0, options_1, sentence;
  } table[] = {
      {"", "--train-iters 9", "--train-iters" + same + "100, rank 1 has 9"},
      {"", "--tp 2", "--tensor-model-parallel-size" + same + "1, rank 1 has 2"},
      {"", "--help", "--help" + same + "false, rank 1 has true"},
      {"--help", "", "--help" + same + "true, rank 1 has false"},
      {"--save {}/a", "--save {}/b", "--save" + same + "{}/a, rank 1 has {}/b"},
      {"", "--save {}/b", "--save" + same + "nothing, rank 1 has {}/b"},
      {"--hidden-size 32", "--hidden-size 64", "--hidden-size" + same + "32, rank 1 has 64"},
      {"--lr 1e-3", "--lr 2e-1", "--lr" + same + "0.001, rank 1 has 0.2"},
      {"--seed 1", "--seed 2", "--seed" + same + "1, rank 1 has 2"},
      {"--clip-grad 1", "--clip-grad 0.001", "--clip-grad" + same + "1, rank 1 has 0.001"},
      {"--weight-decay 0", "--weight-decay 0.9", "--weight-decay" + same + "0, rank 1 has 0.9"},
      {"--global-batch-size 4", "--global-batch-size 8",
       "--global-batch-size" + same + "4, rank 1 has 8"},
      {"--optimizer adamw", "--optimizer sgd", "--optimizer" + same + "adamw, rank 1 has sgd"},
      {"--split 9,1", "--split 8,2", "--split" + same + "9,1, rank 1 has 8,2"},
      {"--hidden-dropout 0", "--hidden-dropout 0.5",
       "--hidden-dropout" + same + "0, rank 1 has 0.5"},
      {"--config {}/a.toml", "--config {}/b.toml", "--lr" + same + "0.001, rank 1 has 0.2"},
      {"--data-path {}/text.tokens", "--data-path {}/TEXT.tokens", "data: train content" + same},
  };
  for (const auto& [options_0, options_1, sentence] : table) {
    SCOPED_TRACE(options_0 + " | " + options_1);
    const auto with_data = [&](const std::string& options) {
      std::string all = options;
      if (options.find("--data-path") == std::string::npos) all += " --data-path {}/text.tokens";
      if (options.find("--hidden-size") == std::string::npos) all += " --hidden-size 32";
      return all;
    };
    expect_once(train(with_data(options_0), with_data(options_1)), configuration,
                in_folder(sentence));
  }
}

TEST_F(HostileRanks, WhatNamesTheNodeMayDiffer) {
  folder_.write("a.toml", "lr = 1e-3\n");
  const std::string more = " --hidden-size 32 --train-iters 2 --data-path {}/";
  for (const char* extension : {".bin", ".idx", ".json"})
    folder_.write(std::string("copy") + extension,
                  folder_.read(std::string("text.tokens") + extension));
  const Outcome outcome = train("--config {}/a.toml --threads-per-rank 2" + more + "text.tokens",
                                "--lr 1e-3 --log-level quiet" + more + "copy");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_F(HostileRanks, AnOptionOfTheApplicationIsComparedToo) {
  const std::string program = TRIREME_UNEVEN_RANKS;
  expect_once(run_shell(str(TRIREME_MPIRUN " --timeout 100 -np 1 ", program,
                            " --uneven nothing : -np 1 ", program, " --uneven slow"),
                        folder_ / "log"),
              configuration,
              "--uneven must be the same on all ranks: rank 0 has nothing, rank 1 has slow");
}

TEST_F(HostileRanks, DifferentModelsAndSourcesAreRefusedOnEveryAxis) {
  const std::string same = " must be the same on all ranks: rank 0 has ",
                    layers = "model: number of blocks" + same + "3, rank 1 has 2",
                    // Their messages between stages would have 64 and 128 bytes.
      width = "model: input x" + same + "f32 (1, 16) replicated, rank 1 has f32 (1, 32) replicated";
  const struct {
    std::string what, axis, sentence;
  } table[] = {
      {"layers", "", layers},
      {"layers", "--tp 2", layers},
      {"layers", "--pp 2", layers},
      {"width", "", width},
      {"width", "--pp 2", width},
      {"ops", "--pp 2", "model: number of ops" + same},
      {"identity", "", "model: kind" + same + "even, rank 1 has odd"},
      {"source", "", "data: kind" + same + "ones (ones.txt), rank 1 has twos (twos.txt)"},
      {"validation", "", "validation data" + same + "none, rank 1 has a source"},
  };
  for (const auto& [what, axis, sentence] : table) {
    SCOPED_TRACE(what + " " + axis);
    expect_once(uneven(what, 2, axis), configuration, sentence);
  }
}

TEST_F(HostileRanks, ARankThatReturnsEarlyEndsTheJobWithASentence) {
  const struct {
    std::string what;
    int ranks;
    std::string options;
  } table[] = {{"return", 2, ""},  {"return", 4, "--tp 2"}, {"return", 4, "--pp 2"},
               {"barrier", 2, ""}, {"allocation", 2, ""},   {"refusal", 2, ""}};
  for (const auto& [what, ranks, options] : table) {
    SCOPED_TRACE(what + options);
    const Outcome outcome = uneven(what, ranks, options);
    EXPECT_EQ(outcome.exit_code, failure) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("world rank 1 has ended its part of the program"));
  }
}

TEST_F(HostileRanks, RanksMayReturnAtDifferentTimes) {
  EXPECT_EQ(uneven("slow", 2, "").exit_code, 0);
}

}  // namespace
}  // namespace trireme::test
