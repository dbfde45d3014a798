// A file system that is really full, or read-only: one clear error for each failed save, training
// continues to its end, the steps that are there stay good, and once there is space saves work
// again.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/steps.h"
#include "tests/support/saving_jobs.h"
#include "tests/support/small_disk.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Index megabyte = Index{1} << 20;  // a checkpoint of the model takes about 6

class FullDisk : public testing::Test {
 protected:
  FullDisk() : jobs_(small_gpt), disk_(jobs_ / "disk", 32 * megabyte) {
    disk_.fill_up_to(9 * megabyte);
  }
  std::string root() const { return jobs_ / "disk/checkpoints"; }
  /// Metrics lie beside the disk.
  std::string saving(int steps) const {
    return jobs_.training(
        four, str("--train-iters ", steps, " --save-interval 5 --keep-last 2 --save ", root(),
                  " --metrics ", jobs_ / "metrics"));
  }
  /// Every file of the disk that is no part of a committed step.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("step-") || name.find('.') != std::string::npos) names.push_back(name);
    }
    return names;
  }

  CheckpointJobs jobs_;
  SmallDisk disk_;
};

TEST_F(FullDisk, CostsTheSavesUntilThereIsSpaceAgain) {
  BackgroundProcess job("exec " + saving(200), jobs_ / "log");
  ASSERT_TRUE(wait_until([&] { return count(job.output(), "is not saved") >= 3; }, 100))
      << job.output();
  EXPECT_EQ(committed_steps(root()), std::vector<Index>{5});
  EXPECT_NO_THROW(read_checkpoint(root() + "/" + step_name(5)));
  disk_.make_space();

  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(committed_steps(root()), (std::vector<Index>{200, 195}));
  for (const int step : {10, 15, 20})
    EXPECT_EQ(count(outcome.output, str("step ", step, " is not saved: rank ")), 1);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("No space left on device"), HasSubstr("the last 3 saves have failed"),
                    HasSubstr("the newest checkpoint is step 5")));
  EXPECT_THAT(leftovers(), IsEmpty());
  EXPECT_EQ(jobs_.run(CheckpointJobs::trireme("checkpoint verify " + root())).exit_code, 0);
}

TEST_F(FullDisk, IsAFailureAtTheEndAndSaysHowManySavesFailed) {
  const Outcome outcome = jobs_.run(saving(20));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("training is finished, but the last 3 saves failed: "),
                    HasSubstr("No space left on device"),
                    HasSubstr("; the newest checkpoint is that of step 5")));
  EXPECT_EQ(read_metrics(jobs_ / "metrics").size(), 20U);
  EXPECT_EQ(committed_steps(root()), std::vector<Index>{5});
  EXPECT_THAT(leftovers(), IsEmpty());
  EXPECT_EQ(jobs_.run(CheckpointJobs::trireme("checkpoint verify " + root())).exit_code, 0);
}

TEST_F(FullDisk, ReadOnlyIsRefusedAtTheStartWithItsPath) {
  disk_.make_read_only();
  const Outcome outcome = jobs_.run(saving(20));
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("--save " + root() + ": "));
}

}  // namespace
}  // namespace trireme::test
