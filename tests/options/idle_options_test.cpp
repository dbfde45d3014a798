// Options that have no effect beside others are named.
#include <gtest/gtest.h>

#include "runtime/options/check_options.h"
#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

std::string idle(const std::string& text, Index ranks) {
  const GptCommandLine line(text, ranks);
  EXPECT_TRUE(line.problems.empty()) << testing::PrintToString(line.problems.all());
  return idle_options(line.command, line.options, ranks);
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
  EXPECT_EQ(idle("--data-parallel-shares 2", 1), "--data-parallel-shares 2 (data parallel size 1)");
  EXPECT_EQ(idle("--stage-speeds 2", 1), "--stage-speeds 2 (pipeline parallel size 1)");
  EXPECT_EQ(idle("--tp 2 --use-distributed-optimizer --schedule gpipe", 2),
            "--schedule gpipe (pipeline parallel size 1: no bubble to fill), "
            "--use-distributed-optimizer (data parallel size 1)");
  EXPECT_EQ(idle("--train-iters 0 --eval-interval 5 --eval-iters 2", 1),
            "--eval-interval 5 (nothing is trained), --eval-iters 2 (nothing is trained)");
}

TEST(IdleOptions, OfAJobOfForwardPassesAreThoseOfTraining) {
  EXPECT_EQ(idle("--skip-train --load /tmp --lr 1e-3 --check-replicas 5 --verify-step 5", 1),
            "--lr 0.001 (nothing is trained), --check-replicas 5 (nothing is trained), "
            "--verify-step 5 (nothing is trained)");
  EXPECT_EQ(idle("--load /tmp --generate 5 --momentum 0.5 --optimizer sgd --tp 2", 2),
            "--optimizer sgd (nothing is trained), --momentum 0.5 (nothing is trained)");
  EXPECT_EQ(idle("--skip-train --load /tmp --use-distributed-optimizer --bucket-size 9", 1),
            "--use-distributed-optimizer (nothing is trained), "
            "--bucket-size 9 (nothing is trained)");
  EXPECT_EQ(idle("--train-iters 0 --lr 1e-3", 1), "");  // a plan has its optimizer
}

TEST(IdleOptions, AreNoneWhereTheyDoSomethingOrAreSwitchedOff) {
  EXPECT_EQ(idle("", 1), "");
  EXPECT_EQ(idle("--tp 2 --sequence-parallel", 2), "");
  EXPECT_EQ(idle("--pp 2 --schedule gpipe", 2), "");
  EXPECT_EQ(idle("--pp 2 --num-virtual-stages-per-pipeline-rank 2", 2), "");
  EXPECT_EQ(idle("--use-distributed-optimizer", 2), "");
  EXPECT_EQ(idle("--train-iters 1 --eval-interval 5", 1), "");
  EXPECT_EQ(idle("--train-iters 0 --eval-interval 0", 1), "");
  EXPECT_EQ(idle("--train-iters 0 --eval-interval 5 --data-path p", 1),
            "--eval-interval 5 (nothing is trained)");
  EXPECT_EQ(idle("--train-iters 0 --eval-interval 5 --data-path p --load r", 1), "");
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
