#include "runtime/train/idle_options.h"

#include <sstream>

#include <gtest/gtest.h>

#include "trireme/train/gpt_options.h"

namespace trireme {
namespace {

std::string idle(const std::string& line, Index ranks) {
  std::vector<std::string> words{"train_gpt"};
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  Options options;
  GptOptions gpt;
  CommandLine command("train_gpt", "");
  declare_options(command, options);
  declare_gpt_options(command, options, gpt);
  Problems problems;
  command.parse(static_cast<int>(argv.size()), argv.data(), problems);
  settle_options(command, options);
  check_options(command, options, ranks, problems);
  check_gpt_options(command, options, gpt, problems);
  EXPECT_TRUE(problems.empty()) << testing::PrintToString(problems.all());
  return idle_options(command, options, ranks);
}

TEST(IdleOptions, AreNamedWithWhatMakesThemIdle) {
  EXPECT_EQ(idle("--sequence-parallel", 1), "--sequence-parallel (tensor parallel size 1)");
  EXPECT_EQ(idle("--schedule gpipe", 2),
            "--schedule gpipe (pipeline parallel size 1: no bubble to fill)");
  EXPECT_EQ(
      idle("--num-virtual-stages-per-pipeline-rank 2", 1),
      "--num-virtual-stages-per-pipeline-rank 2 (pipeline parallel size 1: no bubble to fill)");
  EXPECT_EQ(idle("--use-distributed-optimizer", 1),
            "--use-distributed-optimizer (data parallel size 1)");
  EXPECT_EQ(idle("--tp 2 --use-distributed-optimizer --schedule gpipe", 2),
            "--schedule gpipe (pipeline parallel size 1: no bubble to fill), "
            "--use-distributed-optimizer (data parallel size 1)");
}

TEST(IdleOptions, AreNoneWhereTheyDoSomethingOrAreSwitchedOff) {
  EXPECT_EQ(idle("", 1), "");
  EXPECT_EQ(idle("--tp 2 --sequence-parallel", 2), "");
  EXPECT_EQ(idle("--pp 2 --schedule gpipe", 2), "");
  EXPECT_EQ(idle("--pp 2 --num-virtual-stages-per-pipeline-rank 2", 2), "");
  EXPECT_EQ(idle("--use-distributed-optimizer", 2), "");
  EXPECT_EQ(idle("--sequence-parallel=false --use-distributed-optimizer=false", 1), "");
}

TEST(IdleOptions, OfAProgramThatDeclaresFewerOptions) {
  Options options;
  CommandLine command("program", "");
  declare_options(command, options);
  EXPECT_EQ(idle_options(command, options, 1), "");
}

}  // namespace
}  // namespace trireme
