// The comparison of layouts on emulated GPUs can fail: streams that do not wait for each other, the
// fault of GPUs that a plain run hides, are seen in one of the orders in which CI runs them.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

std::string without_waits(const std::string& which) {
  return "env EMULATION_WITHOUT_WAITS=" + which + " ";
}

class MissingWaits : public ::testing::Test {
 protected:
  /// Garbage that goes into the loss ends in a run that cannot be read.
  bool agrees(const std::string& fault, const EmulatedOrder& order) {
    try {
      const TrainingRun run = harness_.train(fault + on_emulated_gpus(order) + mpirun(2), options_);
      return within_limits(compare(reference_, run));
    } catch (const std::exception&) {
      return false;
    }
  }
  bool agrees_in_every_order(const std::string& fault) {
    return std::all_of(emulated_orders.begin(), emulated_orders.end(),
                       [&](const EmulatedOrder& order) { return agrees(fault, order); });
  }

  TrainingHarness harness_{gpu_width};
  const std::string options_ = gpu_gpt + "--device cuda --micro-batch-size 2 --bucket-size 5000 ";
  TrainingRun reference_ = harness_.train("", gpu_gpt + "--device cpu --micro-batch-size 8");
};

TEST_F(MissingWaits, NothingIsSeenWhereAllWait) {
  EXPECT_TRUE(agrees("", {"random:1", "forward"}));
}

TEST_F(MissingWaits, ACollectiveThatDoesNotWaitForItsOperandIsSeen) {
  EXPECT_FALSE(agrees_in_every_order(without_waits("before_urgent")));
}

TEST_F(MissingWaits, AKernelThatDoesNotWaitForACollectiveIsSeen) {
  EXPECT_FALSE(agrees_in_every_order(without_waits("after_urgent")));
}

/// What a save copies on a stream of its own is not what the next update has left.
TEST(MissingWaitsOfSaves, AreSeen) {
  CheckpointJobs jobs(gpu_gpt +
                      "--num-layers 2 --hidden-size 32 --ffn-hidden-size 96 --vocab-size 256 "
                      "--seq-length 32 --device cuda --train-iters 3 --save-interval 1 ");
  const auto saved = [&](const std::string& name, const std::string& start) {
    jobs.succeed(start +
                 jobs.training({"one GPU", 1, "--micro-batch-size 4"}, "--save " + (jobs / name)));
    return read_checkpoint(jobs / (name + "/step-000001"));
  };
  const auto right = saved("right", on_emulated_gpus());
  const bool seen =
      std::any_of(emulated_orders.begin(), emulated_orders.end(), [&](const EmulatedOrder& order) {
        const std::string start = without_waits("others") + on_emulated_gpus(order);
        const auto wrong = saved("wrong-" + order.streams, start);
        if (first_difference(right, wrong).empty()) return false;
        EXPECT_EQ(first_difference(right, saved("waits", on_emulated_gpus(order))), "");
        return true;
      });
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace trireme::test
