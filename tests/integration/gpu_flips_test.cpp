// Silent corruption on emulated GPUs: a flipped bit and a wrong computation in the memory of one
// are found, the rank is named, and the job that goes back ends with the bits of one that nothing
// disturbed.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/emulated_gpu.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class GpuFlips : public testing::Test {
 protected:
  /// A job of three data replicas, each on a GPU of its own.
  Outcome train(const std::string& run, const std::string& options,
                const EmulatedOrder& order = {}) {
    std::string job = on_emulated_gpus(order) +
                      jobs_.training({"three GPUs", 3, "--micro-batch-size 1"},
                                     str("--device cuda --global-batch-size 6 --train-iters 10 "
                                         "--lr-decay-iters 10 --save-interval 4 ",
                                         compute_, " --save ", jobs_ / run, " --load ", jobs_ / run,
                                         " ", options));
    for (const auto& [from, to] :
         {std::pair{"/train_gpt", "/hostile_flips"}, std::pair{"--global-batch-size 8", ""}})
      job.replace(job.find(from), std::string(from).size(), to);
    return jobs_.run(job);
  }
  void expect_found(const std::string& options, const std::string& sentence) {
    const Outcome found = train("run", options);
    EXPECT_EQ(found.exit_code, 66) << found.output;
    EXPECT_THAT(found.output, HasSubstr(sentence));
    EXPECT_THAT(found.output, HasSubstr("the newest checkpoint is that of step 4"));
    const Outcome again = train("run", "", {"lazy", "reverse"});
    EXPECT_EQ(again.exit_code, 0) << again.output;
    const Outcome clean = train("clean", "");
    EXPECT_EQ(clean.exit_code, 0) << clean.output;
    EXPECT_EQ(first_difference(read_checkpoint(jobs_ / "run/step-000010"),
                               read_checkpoint(jobs_ / "clean/step-000010")),
              "");
  }
  std::string compute_;
  CheckpointJobs jobs_{
      "--model tiny --num-layers 2 --hidden-size 32 --ffn-hidden-size 64 "
      "--num-attention-heads 2 --seq-length 32 --hidden-dropout 0.1 "};
};

TEST_F(GpuFlips, OfAParameterAreFoundByTheReplicas) {
  for (const std::string compute : {"", "--bf16"}) {
    SCOPED_TRACE(compute);
    compute_ = compute;
    expect_found("--check-replicas 3 --flip master:1:5",
                 "silent corruption: after step 6 the data replicas differ in ");
    jobs_.succeed("rm -r " + (jobs_ / "run") + " " + (jobs_ / "clean"));
  }
}

TEST_F(GpuFlips, ThatMakeGradientsWrongAreFoundByAStepDoneTwice) {
  expect_found("--verify-step 3 --flip gradient:1:6",
               "silent corruption: step 6, computed twice, has other bits the second time: rank 1 "
               "on ");
}

}  // namespace
}  // namespace trireme::test
