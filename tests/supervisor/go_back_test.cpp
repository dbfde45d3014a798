// The step from which the job is started again where that is not the newest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class GoingBack : public Supervision {
 protected:
  GoingBack() { world_.last_step = 100; }
  std::vector<Index> steps() const {
    std::vector<Index> all;
    for (const AttemptPlan& plan : world_.plans) all.push_back(plan.step);
    return all;
  }
};

TEST_F(GoingBack, AfterAWrongStepEndsAtTheNewestThatIsNotAfterACleanOne) {
  world_.scripts = {{.steps = 48, .code = 66, .clean = 24}, {.steps = 100}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("corruption", "finished"));
  EXPECT_THAT(steps(), ElementsAre(-1, 20)) << "the newest was 40";
  EXPECT_EQ(history().attempts[1].began.resumed, 20);
  EXPECT_THAT(world_.said, Contains("continues from step 20: step 24, computed twice, was clean"));
}

TEST_F(GoingBack, TakesTheNewestWhereReplicasWereComparedOrNoStepIsKnownToBeClean) {
  world_.scripts = {{.steps = 28, .code = 66},
                    {.steps = 28, .code = 66, .clean = -1},
                    {.steps = 20, .code = 66, .clean = 5},
                    {.steps = 100}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(steps(), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(world_.said, Contains(HasSubstr("no durable step is known to be clean")).Times(2));
}

TEST_F(GoingBack, IsRepeatedWhereTheAttemptEndsBeforeItHasLoaded) {
  world_.scripts = {{.steps = 48, .code = 66, .clean = 24},
                    {.steps = 0, .code = 137},
                    {.steps = 0, .code = 7},
                    {.steps = 7, .code = 137},
                    {.steps = 100}};
  world_.starts[3] = {20, "durable"};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(steps(), ElementsAre(-1, 20, 20, -1, -1)) << "attempt 3 has loaded step 20";
}

TEST_F(GoingBack, AfterNumericsIsRepeatedWhereTheAttemptEndsBeforeItHasLoaded) {
  world_.scripts = {{.steps = 28, .code = 65}, {.steps = 0, .code = 137}, {.steps = 100}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(steps(), ElementsAre(-1, 10, 10));
}

TEST_F(GoingBack, IsNotForgottenByASupervisorThatIsStartedAgain) {
  world_.scripts = {{.steps = 48, .code = 66, .clean = 24}};
  settings_.max_restarts = 0;
  EXPECT_EQ(run(), code::no_help);
  world_.scripts = {{.steps = 100}};
  settings_.max_restarts = 10;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(steps(), ElementsAre(-1, 20));
}

TEST_F(GoingBack, IsPastForASupervisorThatIsStartedAgainOnceTheAttemptHasSaved) {
  for (const bool has_saved : {false, true}) {
    world_ = FakeWorld();
    world_.last_step = 100;
    world_.scripts = {{.steps = 48, .code = 66, .clean = 24},
                      {.steps = 35, .at_second_step = [&] { world_.mine = false; }}};
    EXPECT_THROW(run(), Error);
    world_.mine = true;
    world_.saved = {10, 20, 30, 40};
    if (has_saved) world_.saved_at = world_.date();
    world_.scripts = {{.steps = 100}};
    EXPECT_EQ(run(), 0);
    EXPECT_THAT(steps(), ElementsAre(-1, 20, has_saved ? -1 : 20));
  }
}

TEST_F(GoingBack, AgainAndAgainComesToAnEnd) {
  world_.scripts = {{.steps = 48, .code = 66, .clean = 24},
                    {.steps = 28, .code = 66, .clean = 24},
                    {.steps = 28, .code = 66, .clean = 24},
                    {.steps = 28, .code = 66, .clean = 24}};
  EXPECT_EQ(run(), code::no_help);
  EXPECT_THAT(causes(), ElementsAre("corruption", "corruption", "corruption", "corruption"));
  EXPECT_THAT(world_.said.back(), HasSubstr("3 equal failures (corruption)"));
}

/// A run whose supervisor was killed in its first attempt, which has saved.
class AfterTheDeathOfASupervisor : public GoingBack {
 protected:
  AfterTheDeathOfASupervisor() {
    settings_.ckpt_step = "10";
    world_.scripts = {{.steps = 35, .at_second_step = [&] { world_.mine = false; }}};
    world_.saved = {10, 20};
    EXPECT_THROW(run(), Error);
    world_.mine = true;
    world_.saved = {10, 20, 30};
    world_.scripts = {{.steps = 5, .code = 75}};
  }
};

TEST_F(AfterTheDeathOfASupervisor, AChangedCkptStepCounts) {
  settings_.ckpt_step = "20";
  EXPECT_EQ(run(), code::stopped);
  EXPECT_FALSE(world_.plans.back().resumes);
  EXPECT_TRUE(world_.plans.back().has_saved);
}

TEST_F(AfterTheDeathOfASupervisor, TheSameCkptStepIsPast) {
  EXPECT_EQ(run(), code::stopped);
  EXPECT_TRUE(world_.plans.back().resumes);
}

}  // namespace
}  // namespace trireme::supervisor::test
