// train_gpt --plan-only: what it prints without ranks is what the job of these ranks plans.
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class PlanOnly : public testing::Test {
 protected:
  Outcome run(const std::string& command) const { return run_shell(command, folder_ / "log"); }

  const std::string program_ = TRIREME_BIN_DIR "/train_gpt ";
  const std::string model_ =
      "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 ";
  const std::string layout_ =
      "--tp 2 --pp 2 --bf16 --use-distributed-optimizer --micro-batch-size 2 ";
  ScratchDirectory folder_;
};

TEST_F(PlanOnly, NamesTheBytesThatTheJobPlans) {
  const Outcome plan = run(program_ + model_ + layout_ + "--plan-only=8");
  ASSERT_EQ(plan.exit_code, 0) << plan.output;
  EXPECT_THAT(plan.output, HasSubstr("plan of pipeline 2 x data 2 x tensor 2 = 8 ranks"));
  const std::size_t begin = plan.output.find("parameters ", plan.output.find("tightest rank: 0 "));
  ASSERT_NE(begin, std::string::npos) << plan.output;
  const std::string need = plan.output.substr(begin, plan.output.find('\n', begin) - begin);
  const Outcome job =
      run(TRIREME_MPIRUN " --timeout 120 -np 8 " + program_ + model_ + layout_ + "--train-iters 0");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_THAT(job.output, HasSubstr("(" + need + ")"));
}

TEST_F(PlanOnly, NeedsNoDataNoRanksAndNoGpu) {
  const Outcome outcome = run(
      program_ + "--model llama-1b --tp 4 --pp 8 --global-batch-size 64 --plan-only=64,H100-SXM");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("for a GPU of compute capability 9.0"));
  EXPECT_THAT(outcome.output, HasSubstr("tightest rank: "));
}

TEST_F(PlanOnly, OfAnyProgramIsPrinted) {
  const Outcome outcome = run(TRIREME_BIN_DIR "/mlp --tp 2 --pp 2 --plan-only");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("plan of pipeline 2 x data 1 x tensor 2 = 4 ranks"));
}

TEST_F(PlanOnly, IsPrintedOnceByAJobOfItsRanks) {
  const Outcome outcome =
      run(TRIREME_MPIRUN " --timeout 120 -np 4 " + program_ + model_ + "--tp 2 --plan-only");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const std::string first = "plan of pipeline 1 x data 2 x tensor 2 = 4 ranks";
  ASSERT_NE(outcome.output.find(first), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find(first), outcome.output.rfind(first));
}

TEST_F(PlanOnly, BelongsOnTheCommandLineAndSaysSo) {
  std::ofstream(folder_ / "file") << "plan-only = true\n";
  const Outcome outcome = run(program_ + "--config " + (folder_ / "file"));
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("--plan-only belongs on the command line"));
}

}  // namespace
}  // namespace trireme::test
