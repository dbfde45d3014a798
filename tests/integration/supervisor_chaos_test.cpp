// trireme chaos on a real run: each fault is recovered from, and no bit changes.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

class Chaos : public SupervisedRun {
 protected:
  Outcome chaos(const std::string& options) const {
    return shell(command + " chaos " + run_directory() + " " + options);
  }
};

TEST_F(Chaos, OfEverySimpleKindIsRecoveredFrom) {
  start("--allow-chaos --hang-timeout 8");
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const Outcome outcome =
      chaos("--kinds kill segv stop mpirun --every 0.1 --max 4 --limit 200 --min-goodput 0 --yes");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << output();
  EXPECT_THAT(outcome.output, HasSubstr("none has changed its bits"));
  const History found = history();
  std::vector<std::string> kinds;
  for (const supervisor::Fault& fault : found.faults) kinds.push_back(fault.kind);
  EXPECT_THAT(kinds, UnorderedElementsAre("kill", "segv", "stop", "mpirun"));
  finish();
  expect_nothing_left();
  EXPECT_FALSE(fs::exists(run_directory() + "/supervisor/chaos-offer"));
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Chaos, IsRefusedWhereItMustNotBe) {
  EXPECT_THAT(chaos("--yes").output, HasSubstr("no supervisor runs"));
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const Outcome refused = chaos("--kinds kill fire");
  EXPECT_EQ(refused.exit_code, 64);
  EXPECT_THAT(refused.output, HasSubstr("its supervisor was started without --allow-chaos"));
  EXPECT_THAT(refused.output, HasSubstr("--kinds fire: one of kill, segv, stop, mpirun"));
  EXPECT_THAT(refused.output, HasSubstr("--yes is missing"));
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  start("--allow-chaos");
  wait_for_progress(2, durable());
  if (HasFatalFailure()) return;
  EXPECT_THAT(chaos("--kinds stop --yes").output, HasSubstr("the run has no --hang-timeout"));
  // In a copy of the directory nothing is disturbed.
  fs::create_directory(folder_ / "copy");
  fs::copy(run_directory() + "/supervisor", folder_ / "copy/supervisor",
           fs::copy_options::recursive);
  EXPECT_THAT(shell(command + " chaos " + (folder_ / "copy") + " --yes").output,
              HasSubstr("is a copy of " + run_directory()));
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_THAT(causes(), testing::Each("stopped"));
}

}  // namespace
}  // namespace trireme::test
