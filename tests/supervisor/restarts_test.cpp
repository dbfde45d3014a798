// What follows a failure: another attempt, after a wait, or the end where restarting does not help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Restarts = Supervision;

TEST_F(Restarts, EndsAfterThreeEqualFailuresWithoutProgress) {
  for (int i = 0; i < 5; ++i)
    world_.scripts.push_back({.steps = 3, .code = 7, .error = str("rank ", i, " has an error")});
  EXPECT_EQ(run(), code::no_help);
  EXPECT_EQ(world_.plans.size(), 3U);
  EXPECT_THAT(world_.said.back(), HasSubstr("3 equal failures (failed)"));
  EXPECT_THAT(world_.said.back(), HasSubstr("rank 2 has an error"));
  EXPECT_THAT(world_.said.back(), HasSubstr("the last output is in LOG"));
}

TEST_F(Restarts, EndsAfterSixFailuresOfAnyKindWithoutProgressAndWaitsLongerAndLonger) {
  for (const int code : {7, 139, 7, 139, 7, 139, 7}) world_.scripts.push_back({3, code});
  EXPECT_EQ(run(), code::no_help);
  EXPECT_EQ(world_.plans.size(), 6U);
  const std::vector<double> found = waits();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], (std::vector<double>{0, 0, 1, 2, 4, 8})[i], 0.2) << i;
}

TEST_F(Restarts, ChooseTheIntervalBetweenSavesAfterTwoFailures) {
  settings_.auto_saves = true;
  for (int i = 0; i < 2; ++i) world_.scripts.push_back({.steps = 35, .code = 7});
  world_.last_step = 100;
  world_.scripts.push_back({.steps = 100});
  EXPECT_EQ(run(), code::done);
  ASSERT_EQ(world_.plans.size(), 3U);
  EXPECT_EQ(world_.plans[0].saves, SaveRule());
  EXPECT_EQ(world_.plans[1].saves, SaveRule());
  EXPECT_GT(world_.plans[2].saves.steps, 0);
  const Attempt third = history().attempts[2];
  EXPECT_EQ(third.began.saves, world_.plans[2].saves);
  EXPECT_THAT(world_.said, testing::Contains(
                               HasSubstr("from step 60, saves " + to_text(world_.plans[2].saves))));
}

TEST_F(Restarts, CountsFailuresAnewAfterProgress) {
  for (int i = 0; i < 2; ++i) world_.scripts.push_back({.steps = 3, .code = 7});
  world_.scripts.push_back({.steps = 12, .code = 7});
  for (int i = 0; i < 3; ++i) world_.scripts.push_back({.steps = 3, .code = 7});
  EXPECT_EQ(run(), code::no_help);
  EXPECT_EQ(world_.plans.size(), 6U);
}

TEST_F(Restarts, CountsFailuresAnewAfterAnAttemptOfALostSupervisorThatMadeProgress) {
  world_.scripts = {{.steps = 0, .code = 7}, {.steps = 0, .code = 7}};
  struct Killed {};
  struct Dying : FakeWorld {
    Observation observe(double seconds) override {
      if (plans.size() == 3 && saved.size() > 2) throw Killed();
      return FakeWorld::observe(seconds);
    }
  } dying;
  dying.scripts = world_.scripts;
  dying.scripts.push_back({.steps = 1000});
  EXPECT_THROW(Supervisor(dying, dying, settings_, {}).run(), Killed);
  world_.ledger = dying.ledger;
  world_.saved = dying.saved;
  world_.last_step = 60;
  world_.scripts = {{.steps = 0, .code = 7}, {.steps = 60}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("failed", "failed", "supervisor_lost", "failed", "finished"));
}

TEST_F(Restarts, UseAnotherHostInPlaceOfOneThatDoesNotAnswer) {
  settings_.nodes = 2;
  settings_.spares = 1;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}, {"n2", 1}};
  world_.scripts = {{.steps = 0, .code = 1, .daemon_lost = true, .unreachable = {"n1"}},
                    {.steps = 1, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_THAT(causes(), ElementsAre("node_lost", "stopped"));
  EXPECT_THAT(history().attempts[1].began.nodes, ElementsAre("n0", "n2"));
  EXPECT_EQ(node_states(history(), world_.date())[0].points, 2);
}

TEST_F(Restarts, AreNotDelayedByHostsThatDoNotAnswerWhereTheRunIsAskedToStop) {
  settings_.nodes = 2;
  settings_.time_limit_s = 50;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}};
  world_.reach_s = 1000;
  world_.scripts = {{.steps = 0, .code = 1, .daemon_lost = true, .unreachable = {"n1"}}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_THAT(causes(), ElementsAre("node_lost"));
  EXPECT_LT(world_.time, 200);
  EXPECT_EQ(world_.pending, 0);
}

TEST_F(Restarts, CheckAllHostsAgainWhereOneIsLostThatIsNotNamed) {
  settings_.nodes = 2;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}};
  world_.scripts = {{.steps = 0, .code = 1, .daemon_lost = true}, {.steps = 1, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_THAT(world_.checked, ElementsAre(ElementsAre("n0", "n1"), ElementsAre("n0", "n1")));
}

TEST_F(Restarts, GiveNoNumberTwiceWhereverTheSupervisorDies) {
  struct Killed {};
  struct Dying : FakeWorld {
    void start(const AttemptPlan&) override { throw Killed(); }
  } dying;
  EXPECT_THROW(Supervisor(dying, dying, settings_, {}).run(), Killed);
  world_.ledger = dying.ledger;
  world_.scripts = {{.steps = 12, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_EQ(world_.plans.back().attempt, 2);
}

TEST_F(Restarts, KeepInTheLedgerThatTheLauncherCouldNotBeStarted) {
  struct Full : FakeWorld {
    void start(const AttemptPlan&) override { throw Error("/tmp is full"); }
  } full;
  EXPECT_THROW(Supervisor(full, full, settings_, {}).run(), Error);
  const History found = replay(full.ledger);
  ASSERT_EQ(found.attempts.size(), 1U);
  ASSERT_TRUE(found.attempts[0].ended);
  EXPECT_EQ(found.attempts[0].ended->error, "/tmp is full");
}

TEST_F(Restarts, TakesALaterStartFromMemoryForProgressOfTheAttemptBefore) {
  for (const Index snapshot : {0, 2, 4, 5, 6, 6, 6, 6})
    world_.scripts.push_back({.steps = 3, .code = 7, .snapshot = snapshot});
  EXPECT_EQ(run(), code::no_help);
  EXPECT_EQ(world_.plans.size(), 7U);
  EXPECT_TRUE(world_.saved.empty());
}

TEST_F(Restarts, EndsAtMaxRestarts) {
  settings_.max_restarts = 2;
  for (int i = 0; i < 9; ++i) world_.scripts.push_back({.steps = 12, .code = 137});
  EXPECT_EQ(run(), code::no_help);
  EXPECT_EQ(world_.plans.size(), 3U);
  EXPECT_THAT(world_.said.back(), HasSubstr("--max-restarts 2"));
}

TEST_F(Restarts, NeverRestartsAConfigurationThatCannotRun) {
  world_.scripts = {{.steps = 0, .code = 64}};
  EXPECT_EQ(run(), code::configuration);
  EXPECT_EQ(world_.plans.size(), 1U);
}

TEST_F(Restarts, EndsAtOnceWhereMpirunStartsNothingAndSaysTheRemedy) {
  world_.scripts = {{.steps = 0, .code = 1, .error = "in ORTE", .refusal = "unset SLURM_JOBID"}};
  EXPECT_EQ(run(), code::configuration);
  EXPECT_EQ(world_.plans.size(), 1U);
  const auto remedy = HasSubstr("unset SLURM_JOBID");
  EXPECT_THAT(world_.said, testing::Contains(remedy).Times(1));
  EXPECT_THAT(world_.said.back(), HasSubstr("the configuration cannot run (exit code 64)"));
}

TEST_F(Restarts, HasAReasonInTheLedgerWhateverTheProgramPrints) {
  world_.scripts = {{.steps = 3, .code = 7}};
  world_.last_step = 3;
  run();
  EXPECT_THAT(world_.ledger, HasSubstr("\"error\":\"it printed nothing\""));
}

TEST_F(Restarts, SaysWhichRankASignalHasEndedAndWhere) {
  world_.scripts = {{.steps = 3, .code = 137, .dead_rank_was = "rank 2 (vm, pp0 dp2 tp0), step 3"}};
  world_.last_step = 3;
  run();
  EXPECT_THAT(world_.ledger, HasSubstr("\"error\":\"signal 9 (SIGKILL) ended rank 2 (vm, pp0 dp2 "
                                       "tp0), step 3\""));
}

TEST_F(Restarts, SaysFromWhichTierAnAttemptHasStarted) {
  world_.scripts = {{.steps = 17, .code = 137}, {.steps = 3, .snapshot = 15}};
  world_.starts[2] = {15, "memory"};
  world_.last_step = 18;
  settings_.snapshots = true;
  run();
  EXPECT_THAT(world_.said, testing::Contains("attempt 2: 1 rank, from durable step 10 or a newer "
                                             "one in memory"));
  EXPECT_THAT(world_.said,
              testing::Contains("attempt 2 has started from step 15 (in memory; durable "
                                "step 10)"));
}

TEST_F(Restarts, RestartsAConfigurationThatHasRunBefore) {
  world_.last_step = 40;
  world_.scripts = {{.steps = 12, .code = 137},
                    {.steps = 0, .code = 64, .error = "not enough memory"},
                    {.steps = 0, .code = 64, .error = "not enough memory"},
                    {.steps = 40}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("killed", "configuration", "configuration", "finished"));
  EXPECT_GE(waits()[2], 5);  // what another process holds takes time to be given back
}

TEST_F(Restarts, EndsWith64WhereAConfigurationThatHasRunFailsToStartThreeTimes) {
  world_.scripts = {{.steps = 12, .code = 137}};
  for (int i = 0; i < 4; ++i) world_.scripts.push_back({.steps = 0, .code = 64, .error = "full"});
  EXPECT_EQ(run(), code::configuration);
  EXPECT_EQ(world_.plans.size(), 4U);
  EXPECT_THAT(world_.said.back(), HasSubstr("3 equal failures (configuration)"));
}

TEST_F(Restarts, TakesAConfigurationForANewOneAfterItEnded) {
  world_.scripts = {{.steps = 12, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
  world_.scripts = {{.steps = 0, .code = 64}, {.steps = 12}};
  EXPECT_EQ(run(), code::configuration);
}

TEST_F(Restarts, UsesTheSpareThatIsLeftAfterThreeHostsAreLost) {
  settings_.nodes = 3;
  settings_.spares = 4;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}, {"n5", 1}};
  world_.last_step = 60;
  for (const char* lost : {"n0", "n1", "n2"})
    world_.scripts.push_back(
        {.steps = 12, .code = 205, .error = "no answer of n1", .lost_host = lost});
  world_.scripts.push_back({.steps = 40});
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(history().attempts[3].began.nodes, ElementsAre("n3", "n4", "n5"));
}

}  // namespace
}  // namespace trireme::supervisor::test
