// The supervisor with attempts that go as the test says: causes, exit codes, backoff, the end when
// restarting does not help, and the ledger that it leaves.
#include "launch/supervisor/decide/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Supervision, OfAJobThatFinishesEndsWith0) {
  world_.last_step = 25;
  world_.scripts = {{.steps = 25, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
  EXPECT_THAT(world_.events, ElementsAre("attempt_began", "attempt_ended", "done"));
}

TEST_F(Supervision, RestartsAKilledJobAtOnceAsLongAsItMakesProgress) {
  world_.last_step = 100;
  for (int i = 0; i < 8; ++i) world_.scripts.push_back({.steps = 12, .code = 137});
  world_.scripts.push_back({.steps = 20, .code = 0});
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(world_.plans.size(), 9U);
  for (const double wait : waits()) EXPECT_LT(wait, 0.2);
}

TEST_F(Supervision, TakesExitCode0OfAJobThatIsNotFinishedForAFailure) {
  world_.last_step = 30;
  world_.scripts = {{.steps = 12, .code = 0}, {.steps = 20, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("ended_early", "finished"));
}

TEST_F(Supervision, DoesNotRestartAFinishedJobWhoseEndTheLauncherMissed) {
  world_.last_step = 40;
  world_.scripts = {{.steps = 25, .code = 1, .end_missed = true},  // something else: not finished
                    {.steps = 20, .code = 1, .end_missed = true}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("failed", "finished"));
}

TEST_F(Supervision, RestartsAJobWhoseEndTheLauncherMissedBeforeItsLastStepWasSaved) {
  world_.last_step = 25;
  world_.scripts = {{.steps = 25, .code = 1, .end_missed = true, .saves_last = false},
                    {.steps = 5}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("failed", "finished"));
}

TEST_F(Supervision, GoesBackOnceWhereGradientsAreNotFinite) {
  world_.scripts = {{.steps = 35, .code = 65}, {.steps = 15, .code = 65}};
  EXPECT_EQ(run(), code::no_help);
  ASSERT_EQ(world_.plans.size(), 2U);
  EXPECT_EQ(world_.plans[0].step, -1);
  EXPECT_EQ(world_.plans[1].step, 20);  // not 30, the newest
  EXPECT_EQ(history().attempts[1].began.resumed, 20);
  EXPECT_THAT(world_.said.back(), HasSubstr("at step 35 as before: this is deterministic"));
}

TEST_F(Supervision, SaysAndKeepsSpikesOfTheLossAndChangesNothing) {
  world_.last_step = 60;
  world_.scripts = {{.steps = 60, .spike_at_step = 25}};
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(world_.plans.size(), 1U);
  ASSERT_EQ(history().spikes.size(), 1U);
  EXPECT_EQ(history().spikes[0].attempt, 1);
  EXPECT_EQ(history().spikes[0].step, 25);
  EXPECT_EQ(history().spikes[0].loss, 7.5);
  EXPECT_THAT(world_.said, Contains(HasSubstr("loss spike: to step 25, with loss 7.5")));
  EXPECT_THAT(world_.events, Contains("loss_spike"));
}

TEST_F(Supervision, TakesStepsFromBeforeItWentBackForNoProgress) {
  world_.scripts = {{.steps = 35, .code = 65}, {.steps = 0, .code = 7}, {.steps = 1, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_EQ(history().attempts[1].ended->durable, 20);
}

TEST_F(Supervision, ContinuesWhereGradientsWereNotFiniteByAccident) {
  world_.last_step = 60;
  world_.scripts = {{.steps = 35, .code = 65}, {.steps = 40, .code = 0}};
  EXPECT_EQ(run(), 0);
}

TEST_F(Supervision, EndsWith75WhenTheJobStoppedUnasked) {
  world_.scripts = {{.steps = 12, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
}

TEST_F(Supervision, AsksTheJobToSaveAtASignal) {
  world_.scripts = {{.steps = 100, .signal_at_step = 13}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_EQ(world_.asked, 1);
  EXPECT_THAT(world_.events, Contains("stopping"));
  EXPECT_EQ(history().attempts[0].ended->durable, history().attempts[0].ended->last_step);
}

TEST_F(Supervision, AsksAgainWhereTheRequestDidNotReachTheRanks) {
  world_.scripts = {{.steps = 1000, .deaf = 1, .signal_at_step = 1}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_EQ(world_.asked, 2);
}

TEST_F(Supervision, EndsAJobThatHasDoneNothingWithoutAskingIt) {
  world_.scripts = {{.hangs = true}};
  world_.signals = {SIGTERM};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_EQ(world_.asked, 0);
}

TEST_F(Supervision, EndsAJobByForceThatDoesNotObeyWithinTheGrace) {
  settings_.grace_s = 3;
  world_.scripts = {{.steps = 1, .code = 0, .hangs = true, .obeys = false, .signal_at_step = 1}};
  EXPECT_EQ(run(), 128 + SIGTERM);  // its step is lost
  EXPECT_EQ(world_.ended, 1);
  EXPECT_GT(world_.time - world_.started[0], 3);
}

TEST_F(Supervision, GivesAJobAsMuchGraceAsItsSavesTake) {
  world_.scripts = {
      {.steps = 12, .hangs = true, .obeys = false, .signal_at_step = 12, .step_s = 15}};
  EXPECT_EQ(run(), code::stopped);  // step 10 is durable
  // A save that is over at once, and two steps.
  EXPECT_NEAR(world_.time - world_.started[0] - 12 * 15, 30, 0.5);
  EXPECT_GT(history().attempts[0].ended->save_s, 0);
}

TEST_F(Supervision, EndsAtOnceAtASecondSignalThatIsNotTheSame) {
  world_.scripts = {{.steps = 100, .obeys = false, .signal_at_step = 1}};
  world_.signals = {SIGTERM};  // with that of step 1 a request that came twice
  settings_.grace_s = 1e9;
  settings_.time_limit_s = 0;
  world_.scripts.front().hangs = true;
  struct Impatient : FakeWorld {
    Observation observe(double seconds) override {
      if (time > 105 && signals.empty()) signals.push_back(SIGTERM);
      return FakeWorld::observe(seconds);
    }
  } impatient;
  impatient.scripts = world_.scripts;
  impatient.signals = world_.signals;
  Supervisor supervisor(impatient, impatient, settings_, {});
  EXPECT_EQ(supervisor.run(), code::stopped);  // what was durable by then is of this attempt
  EXPECT_GE(impatient.time, 105);
}

TEST_F(Supervision, StopsAtTheTimeLimit) {
  settings_.time_limit_s = 2;
  world_.scripts = {{.steps = 100}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_EQ(world_.asked, 1);
}

TEST_F(Supervision, EndsWith75WhereTheTimeLimitIsOverWhileItWaitsForHosts) {
  settings_.nodes = 2;
  settings_.has_hosts = true;
  settings_.wait_nodes_s = 100;
  settings_.time_limit_s = 2;
  world_.all_hosts = {{"n0", 2}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_EQ(world_.plans.size(), 0U);
}

TEST_F(Supervision, MeasuresTimesWhateverTheDateDoes) {
  world_.last_step = 30;
  for (const double jump : {1e7, -2e7}) {
    world_.scripts.push_back({.steps = 12, .code = 137});
    world_.scripts.back().clock_jump_s = jump;
  }
  world_.scripts.push_back({.steps = 10, .code = 0});
  EXPECT_EQ(run(), 0);
  const Goodput found = goodput(history());
  EXPECT_NEAR(found.useful_s, 3.0, 0.01);
  EXPECT_NEAR(found.lost_s, 0.4, 0.01);  // two steps of each attempt that failed
  EXPECT_LT(found.wall_s, 5);
  EXPECT_GT(found.wall_s, 3);
}

TEST_F(Supervision, ContinuesTheLedgerOfASupervisorThatDied) {
  world_.last_step = 40;
  for (int i = 0; i < 2; ++i) world_.scripts.push_back({.steps = 3, .code = 7});
  struct Killed {};
  struct Dying : FakeWorld {
    void append(const Json& line) override {
      FakeWorld::append(line);
      if (replay(ledger).attempts.size() == 2) throw Killed();  // its second attempt begins
    }
  } dying;
  dying.scripts = world_.scripts;
  EXPECT_THROW(Supervisor(dying, dying, settings_, {}).run(), Killed);
  world_.ledger = dying.ledger;
  world_.scripts = {{.steps = 3, .code = 7}, {.steps = 3, .code = 7}, {.steps = 3, .code = 7}};
  EXPECT_EQ(run(), code::no_help);
  // One failure before, two after: the attempt whose supervisor died counts for neither.
  EXPECT_THAT(causes(), ElementsAre("failed", "supervisor_lost", "failed", "failed"));
  EXPECT_THAT(world_.said.front(), HasSubstr("continues run run-1"));
}

TEST_F(Supervision, BeginsAnewAfterOneThatEnded) {
  for (int i = 0; i < 3; ++i) world_.scripts.push_back({.steps = 3, .code = 7});
  EXPECT_EQ(run(), code::no_help);
  world_.last_step = 30;
  world_.scripts = {{.steps = 3, .code = 7}, {.steps = 30, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(history().run, "run-1");
  EXPECT_EQ(history().attempts.size(), 5U);
}

TEST_F(Supervision, ReplaysALedgerThatIsCutAtAnyByte) {
  world_.last_step = 40;
  world_.scripts = {{.steps = 12, .code = 137}, {.steps = 5, .code = 139}, {.steps = 40}};
  EXPECT_EQ(run(), 0);
  const std::string whole = world_.ledger;
  for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    FakeWorld world;
    world.last_step = 40;
    world.saved = {10, 20, 30, 40};
    world.scripts = {{.steps = 0, .code = 0}};
    world.ledger = whole.substr(0, whole.substr(0, bytes).rfind('\n') + 1);  // as LedgerFile cuts
    Supervisor supervisor(world, world, settings_, replay(whole.substr(0, bytes)));
    ASSERT_EQ(supervisor.run(), 0) << bytes;
    const History found = replay(world.ledger);
    ASSERT_EQ(found.ignored, 0) << bytes;
    ASSERT_TRUE(found.end) << bytes;
    for (const Attempt& attempt : found.attempts) ASSERT_TRUE(attempt.ended) << bytes;
  }
}

TEST_F(Supervision, ReplacesALostHostByASpareInItsPlace) {
  settings_.nodes = 2;
  settings_.spares = 1;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}, {"n2", 1}};
  world_.last_step = 60;
  for (const char* lost : {"n0", "n1", "n0"})
    world_.scripts.push_back({.steps = 12, .code = 205, .error = "lost", .lost_host = lost});
  world_.scripts.push_back({.steps = 40, .code = 0});
  EXPECT_EQ(run(), 0);
  const History found = history();
  EXPECT_THAT(found.attempts[0].began.nodes, ElementsAre("n0", "n1"));
  EXPECT_THAT(found.attempts[1].began.nodes, ElementsAre("n2", "n1"));
  EXPECT_THAT(found.attempts[2].began.nodes, ElementsAre("n2", "n0"));  // n0 was lost once only
  EXPECT_THAT(found.attempts[3].began.nodes, ElementsAre("n2", "n1"));
  EXPECT_THAT(world_.events, Contains("quarantine"));
}

TEST_F(Supervision, EndsWith69WhenHostsAreLostAndContinuesWhenOneIsReleased) {
  settings_.nodes = 2;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}};
  for (int i = 0; i < 2; ++i)
    world_.scripts.push_back({.steps = 12, .code = 205, .error = "lost", .lost_host = "n0"});
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_THAT(world_.said.back(), HasSubstr("2 are needed, 2 are listed, 1 are in quarantine"));
  world_.releases = {"n0"};
  world_.last_step = 30;
  world_.scripts = {{.steps = 30, .code = 0}};
  EXPECT_EQ(run(), 0);
}

TEST_F(Supervision, TakesAHostAgainWhenItsQuarantineIsOver) {
  settings_.nodes = 1;
  settings_.wait_nodes_s = 1000;
  settings_.quarantine_s = 300;
  world_.all_hosts = {{"n0", 1}};
  world_.last_step = 30;
  for (int i = 0; i < 2; ++i)
    world_.scripts.push_back({.steps = 12, .code = 205, .error = "lost", .lost_host = "n0"});
  world_.scripts.push_back({.steps = 30, .code = 0});
  EXPECT_EQ(run(), 0);
  EXPECT_NEAR(waits()[2], 301, 2);
}

TEST_F(Supervision, BlamesNoHostForARankThatTheKernelEndedForLackOfMemory) {
  settings_.nodes = 1;
  world_.all_hosts = {{"n0", 1}};
  for (int i = 0; i < 3; ++i)
    world_.scripts.push_back(
        {.steps = 3, .code = 137, .rank_host = "n0", .out_of_memory = "the kernel did it"});
  EXPECT_EQ(run(), code::no_help);
  EXPECT_THAT(causes(), ElementsAre("out_of_memory", "out_of_memory", "out_of_memory"));
  EXPECT_THAT(node_states(history(), world_.date()), IsEmpty());
  EXPECT_THAT(history().attempts[0].ended->error, "the kernel did it");
}

TEST_F(Supervision, StartsNothingInARunThatAnotherOneHasTaken) {
  world_.mine = false;
  EXPECT_THROW(run(), Error);
  EXPECT_THAT(world_.plans, IsEmpty());
}

TEST_F(Supervision, TrustsTheExitCodeOfAProgramThatItCannotWatch) {
  settings_.watched = false;
  world_.scripts = {{.code = 7}, {.code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("failed", "finished"));
}

TEST_F(Supervision, ForgetsWhatTheJobWasStartedFromOnceItHasSaved) {
  world_.last_step = 60;
  world_.scripts = {{.steps = 3, .code = 7}, {.steps = 12, .code = 137}, {.steps = 5, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_FALSE(world_.plans[1].resumes);
  EXPECT_TRUE(world_.plans[2].resumes);
  world_.scripts = {{.steps = 60, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_FALSE(world_.plans[3].resumes);
  EXPECT_TRUE(world_.plans[3].has_saved);
}

}  // namespace
}  // namespace trireme::supervisor::test
