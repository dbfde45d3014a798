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

TEST_F(Chaos, OfKindsThatRanksPlantInThemselvesIsRecoveredFrom) {
  start("--allow-chaos --hang-timeout 4", trainer,
        "--max-skipped 1 --check-replicas 3 --save-memory-interval 2");
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const Outcome outcome = chaos(
      "--kinds hang slow nan flip xid full-disk corrupt --every 0.1 --max 7 --limit 200 "
      "--min-goodput 0 --save-chaos " +
      (folder_ / "copy") + " --yes");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << output();
  EXPECT_THAT(outcome.output, HasSubstr("none has changed its bits"));
  EXPECT_THAT(outcome.output, HasSubstr("xid is simulated"));
  for (const char* named : {"hang ", "slow ", "flip ", "xid "})
    EXPECT_THAT(outcome.output, testing::ContainsRegex(str("\n", named, " *1 +1 +1 +0 ")));
  for (const char* noticed : {"nan ", "full-disk ", "corrupt "})
    EXPECT_THAT(outcome.output, testing::ContainsRegex(str("\n", noticed, " *1 +1 +0 +1 ")));
  EXPECT_THAT(causes(),
              UnorderedElementsAre("hang", "numerics", "corruption", "gpu_failed", "none"));
  EXPECT_FALSE(fs::exists(folder_ / "copy"));
  finish();
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Chaos, OfAGradientThatIsSkippedIsNoEndOfTheJob) {
  start("--allow-chaos");
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const Outcome outcome = chaos("--kinds nan --every 0.1 --max 1 --limit 200 --yes");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << output();
  EXPECT_THAT(outcome.output, HasSubstr("fault 1: nan: rank "));
  EXPECT_THAT(outcome.output, HasSubstr(": skipped, "));
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_THAT(causes(), testing::ElementsAre("stopped"));
}

TEST_F(Chaos, IsRefusedWhereItMustNotBe) {
  EXPECT_THAT(chaos("--yes").output, HasSubstr("no supervisor runs"));
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const Outcome refused = chaos("--kinds kill fire");
  EXPECT_EQ(refused.exit_code, 64);
  EXPECT_THAT(refused.output, HasSubstr("its supervisor was started without --allow-chaos"));
  EXPECT_THAT(refused.output, HasSubstr("--kinds fire: one of kill, segv, stop, hang, slow"));
  EXPECT_THAT(refused.output, HasSubstr("--yes is missing"));
  stop();
  start("--allow-chaos", trainer, "--check-replicas 0");
  wait_for_progress(2, durable());
  if (HasFatalFailure()) return;
  EXPECT_THAT(chaos("--kinds flip --yes").output,
              HasSubstr("--kinds flip: the run has --check-replicas 0"));
  // On one machine a stopped rank is noticed without --hang-timeout.
  EXPECT_THAT(chaos("--kinds stop node --node-cmd true --yes").output,
              testing::Not(HasSubstr("--hang-timeout")));
  const Outcome lacking = chaos("--kinds node link corrupt --yes");
  EXPECT_THAT(lacking.output, HasSubstr("--kinds node needs --node-cmd"));
  EXPECT_THAT(lacking.output, HasSubstr("--kinds link needs --link-cmd"));
  EXPECT_THAT(lacking.output, HasSubstr("--kinds corrupt needs --save-chaos"));
  EXPECT_THAT(chaos("--kinds corrupt --yes --save-chaos " + run_directory() + "/copy").output,
              HasSubstr("has to be apart from " + run_directory()));
  EXPECT_THAT(chaos("--kinds node --node-cmd true --yes").output,
              HasSubstr("the run has this machine only"));
  EXPECT_THAT(chaos("--kinds kill --node-cmd true --yes").output,
              HasSubstr("--node-cmd has no meaning without --kinds node"));
  // In a copy of the directory nothing is disturbed.
  fs::create_directory(folder_ / "copy");
  fs::copy(run_directory() + "/supervisor", folder_ / "copy/supervisor",
           fs::copy_options::recursive);
  EXPECT_THAT(shell(command + " chaos " + (folder_ / "copy") + " --yes").output,
              HasSubstr("is a copy of " + run_directory()));
  stop();
  EXPECT_THAT(causes(), testing::Each("stopped"));
}

}  // namespace
}  // namespace trireme::test
