// trireme run with snapshots of emulated GPUs in memory, copied by streams beside training, in any
// legal order: a kill costs no bit.
#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/emulated_gpu.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

class GpuSnapshots : public SupervisedRun, public testing::WithParamInterface<std::string> {
 protected:
  GpuSnapshots() {
    save_interval_ = 100000;
    layout_ = "--tp 2 --global-batch-size 8 --device cuda --use-distributed-optimizer";
    fs::create_directory(disk_);
  }
  /// Until a snapshot of this attempt is complete everywhere.
  void wait_for(const std::string& place) {
    ASSERT_TRUE(wait_until([&] {
      const std::string status = shell(command + " status " + run_directory()).output;
      return !job_->running() ||
             (status.find(place) != std::string::npos && rank_processes().size() == ranks);
    })) << output();
    ASSERT_TRUE(job_->running()) << output();
  }

  const std::string disk_ = folder_ / "disk";
};

TEST_P(GpuSnapshots, AreLoadedWithTheSameBits) {
  variables_ = on_emulated_gpus({GetParam()});
  start("", trainer, "--save-memory-interval 2 --save-local-interval 2 --save-local " + disk_);
  wait_for(", on local disks step ");
  if (HasFatalFailure()) return;
  kill(rank_processes().back(), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }));
  wait_for(", in memory step ");
  if (HasFatalFailure()) return;
  EXPECT_EQ(history().attempts[1].started.tier, "memory") << output();
  EXPECT_GE(history().attempts[1].started.step, 2);
  finish();
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run(on_emulated_gpus());
}
INSTANTIATE_TEST_SUITE_P(Orders, GpuSnapshots, testing::Values("lazy", "random:3"));

}  // namespace
}  // namespace trireme::test
