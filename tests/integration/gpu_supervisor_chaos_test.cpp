// trireme chaos on emulated GPUs: faults that ranks plant in the memory of their devices are found,
// a rank that hangs while the others wait in NCCL is named, and no step has other numbers.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/emulated_gpu.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class GpuChaos : public SupervisedRun {
 protected:
  GpuChaos() {
    variables_ = on_emulated_gpus();
    per_host_ = ranks_ = 2;
    layout_ = "--micro-batch-size 2 --global-batch-size 4";
  }
};

TEST_F(GpuChaos, FindsWhatIsPlantedInTheMemoryOfDevicesAndARankThatHangs) {
  const std::string options = "--device cuda --use-distributed-optimizer --bf16";
  start("--allow-chaos --hang-timeout 4", trainer, options + " --max-skipped 1 --check-replicas 5");
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const Outcome outcome = shell(command + " chaos " + run_directory() +
                                " --kinds nan flip hang --every 0.1 --max 3 --limit 300 "
                                "--min-goodput 0 --yes");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << output();
  EXPECT_THAT(outcome.output, HasSubstr("none has changed its bits"));
  for (const char* named : {"flip ", "hang "})
    EXPECT_THAT(outcome.output, ContainsRegex(str("\n", named, " *1 +1 +1 +0 ")));
  EXPECT_THAT(outcome.output, ContainsRegex("\nnan  *1 +1 +0 +1 "));
  stop();
  expect_nothing_left();
}

}  // namespace
}  // namespace trireme::test
