// train_gpt --plan auto, as users start it: ranks train with the layout that the planner chose, and
// say what was predicted and measured.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/cpu_profile.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class PlanAuto : public testing::Test {
 protected:
  PlanAuto() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += str(i * i, i % 7 == 0 ? ".\n" : " ");
    std::ofstream(folder_ / "a.txt") << text;
    run_shell(TRIREME_BIN_DIR "/trireme data prepare --input " + (folder_ / "a.txt") +
                  " --output " + (folder_ / "a"),
              folder_ / "log");
  }
  Outcome run(int ranks, const std::string& options) const {
    return run_shell(str(TRIREME_MPIRUN " --timeout 120 -np ", ranks,
                         " " TRIREME_BIN_DIR "/train_gpt --plan auto --device cpu --data-path ") +
                         (folder_ / "a") + " " + model_ + options,
                     folder_ / "log");
  }
  const std::string model_ =
      "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
      "--global-batch-size 4 --log-interval 20 ";
  ScratchDirectory folder_;
  const std::string profile_ = "--plan-profile " + write_cpu_profile(folder_ / "cpu.json") + ' ';
};

TEST_F(PlanAuto, TrainsWithTheChosenLayoutAndKeepsItWhenItResumes) {
  const std::string save = "--save " + (folder_ / "run") + ' ';
  const Outcome first = run(2, profile_ + save + "--tp 2 --train-iters 20");
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("plan:  1 > tp 2  pp 1  dp 1  mb "));
  EXPECT_THAT(first.output, HasSubstr("pipeline 1 x data 1 x tensor 2 = 2 ranks"));
  EXPECT_THAT(first.output, HasSubstr("effective configuration (* given, + chosen)"));
  EXPECT_THAT(first.output,
              ContainsRegex("plan: a step .* predicted, .* measured .*; memory of the largest "
                            "rank .* predicted, .* measured"));
  // Without --tp 2 a new job of this model would have another layout.
  const Outcome resumed =
      run(2, profile_ + save + "--load " + (folder_ / "run") + " --train-iters 22");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("plan: the layout of step 20 of "));
  EXPECT_THAT(resumed.output, HasSubstr("pipeline 1 x data 1 x tensor 2 = 2 ranks"));
  const Outcome refused = run(2, "--train-iters 20");
  EXPECT_EQ(refused.exit_code, 64) << refused.output;
  EXPECT_EQ(count(refused.output, "--plan auto on CPUs needs --plan-profile FILE"), 1);
  EXPECT_THAT(refused.output, HasSubstr("1 problem\n"));
}

}  // namespace
}  // namespace trireme::test
