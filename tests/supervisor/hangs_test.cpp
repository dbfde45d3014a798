// What the supervisor does about jobs that do not move: by their steps, or as their status pages
// show them.
#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

TEST_F(Supervision, EndsAHangAndRestarts) {
  settings_.hang_s = 5;
  world_.last_step = 30;
  world_.scripts = {{.steps = 12, .hangs = true}, {.steps = 20, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("hang", "finished"));
  EXPECT_NEAR(history().attempts[0].ended->detect_s, 5, 0.3);
}

TEST_F(Supervision, WaitsAsLongAgainWhereStatusPagesAreNoLongerSeen) {
  constexpr double gone = 200;
  struct CutOff : FakeWorld {
    Observation observe(double seconds) override {
      Observation seen = FakeWorld::observe(seconds);
      seen.pages = time < gone;
      return seen;
    }
  } world;
  settings_.hang_s = 5;
  world.last_step = 30;
  world.scripts = {{.steps = 12, .hangs = true}, {.steps = 20, .code = 0}};
  EXPECT_EQ(Supervisor(world, world, settings_, {}).run(), 0);
  ASSERT_EQ(world.started.size(), 2U);
  EXPECT_NEAR(world.started[1], gone + settings_.hang_s, 0.5);
}

TEST_F(Supervision, EndsWhatTheStatusPagesShowToBeStuckAndBlamesTheHost) {
  settings_.hang_s = 5;
  settings_.nodes = 2;
  world_.all_hosts = {{"n1", 1}, {"n2", 1}, {"n3", 1}};
  settings_.spares = 1;
  world_.last_step = 30;
  const Hang suspicion{.sentence = "hang: a suspicion", .kind = "group"};
  const Hang hang{
      .sentence = "hang: rank 1 (n2) does nothing", .kind = "rank", .hosts = {"n2"}, .end = true};
  world_.scripts = {{.steps = 12, .hangs = true, .verdicts = {suspicion, hang}},
                    {.steps = 20, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("hang", "finished"));
  const AttemptEnded ended = *history().attempts[0].ended;
  EXPECT_EQ(ended.error, hang.sentence);
  ASSERT_EQ(ended.blame.size(), 1U);
  EXPECT_EQ(ended.blame[0].host, "n2");
  EXPECT_EQ(ended.blame[0].points, 2);
  EXPECT_THAT(world_.said, Contains(suspicion.sentence));
  EXPECT_THAT(world_.said, Contains(hang.sentence));
  EXPECT_THAT(world_.events, Contains("hang"));
  EXPECT_EQ(world_.plans[1].hosts[1].name, "n3");
}

TEST_F(Supervision, LeavesItToStatusPagesWhetherAJobIsStuck) {
  settings_.hang_s = 5;
  world_.last_step = 30;
  const Hang suspicion{.sentence = "hang: a suspicion", .kind = "group"};
  const Hang hang{.sentence = "hang: rank 1", .kind = "rank", .hosts = {"n2"}, .end = true};
  std::deque<Hang> verdicts(200, suspicion);  // for 20 s
  verdicts.push_back(hang);
  world_.scripts = {{.steps = 12, .hangs = true, .verdicts = verdicts}, {.steps = 20, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("hang", "finished"));
  EXPECT_GT(history().attempts[0].ended->detect_s, 19);
  EXPECT_THAT(history().attempts[0].ended->blame, IsEmpty());  // there is only one machine
}

TEST_F(Supervision, ReportsThatAJobMovesAgainAsAnEventOfItsOwn) {
  world_.last_step = 30;
  const Hang over{.sentence = "the job moves again", .over = true};
  world_.scripts = {{.steps = 12, .hangs = true, .verdicts = {over}}};
  settings_.time_limit_s = 5;
  EXPECT_EQ(run(), code::stopped);
  EXPECT_THAT(world_.events, Contains("hang_over"));
  EXPECT_THAT(world_.events, Not(Contains("hang")));
}

TEST_F(Supervision, EndsALauncherWhoseRanksHaveAllFinished) {
  world_.last_step = 12;
  const Hang exit{
      .sentence = "hang: no exit", .kind = "exit", .end = true, .all_have_finished = true};
  world_.scripts = {{.steps = 12, .hangs = true, .verdicts = {exit}}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
}

TEST_F(Supervision, TakesASleepOfTheMachineForNoHang) {
  settings_.hang_s = 5;
  world_.last_step = 30;
  world_.scripts = {{.steps = 30, .code = 0, .sleep_s = 3600}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
}

}  // namespace
}  // namespace trireme::supervisor::test
