// The interval between saves that loses least, from the ledger of a run.
#include "launch/supervisor/records/save_interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::supervisor::test {
namespace {

/// 100 steps of 1 s in each attempt, a save every 10 steps that stalls 0.5 s, a failure a 200 s.
History with_failures(Index failures, double save_s) {
  History history;
  for (Index attempt = 1; attempt <= failures; ++attempt) {
    AttemptBegan began;
    began.attempt = attempt;
    history.add(began);
    AttemptEnded ended;
    ended.attempt = attempt;
    ended.cause = Cause::killed;
    ended.first_step = 100 * (attempt - 1) + 1;
    ended.last_step = 100 * attempt;
    ended.useful_s = 90;
    ended.lost_s = 10;
    ended.stall_s = 10;
    ended.detect_s = 5;
    ended.start_s = 90;
    ended.wall_s = 200;
    ended.saves = 10;
    ended.save_interval = 10;
    ended.save_s = save_s;
    history.add(ended);
  }
  return history;
}

TEST(SaveInterval, FollowsFromTheStallAndTheTimeBetweenFailures) {
  const auto found = save_interval(with_failures(3, 2));
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->steps, 10);
  EXPECT_DOUBLE_EQ(found->step_s, 1);
  EXPECT_DOUBLE_EQ(found->stall_s, 0.5);
  EXPECT_DOUBLE_EQ(found->failure_s, 200);
  EXPECT_EQ(found->best_steps(), 14);  // sqrt(2 * 0.5 * 200)
  EXPECT_EQ(to_text(*found),
            "a save every 10 steps (10 s) stalls training for at most 0.5 s; with a failure every "
            "200 s, a save every 14 steps loses least\n");
}

TEST(SaveInterval, IsNotShorterThanASave) {
  EXPECT_EQ(save_interval(with_failures(3, 50))->best_steps(), 50);
  History one_is_slow = with_failures(3, 50);
  one_is_slow.attempts[0].ended->save_s = 80;
  EXPECT_EQ(save_interval(one_is_slow)->best_steps(), 60);
}

TEST(SaveInterval, IsUnknownWithFewFailuresOrSaves) {
  EXPECT_FALSE(save_interval(with_failures(1, 2)));
  History one_save = with_failures(3, 2);
  for (Attempt& attempt : one_save.attempts) attempt.ended->saves = 1;
  EXPECT_FALSE(save_interval(one_save));
  EXPECT_FALSE(save_interval({}));
}

TEST(SaveInterval, IsChosenOnceFailuresAndSavesAreKnown) {
  EXPECT_EQ(choose_saves({}, 0), (SaveRule{.steps = 0, .seconds = 600}));
  EXPECT_EQ(choose_saves(with_failures(1, 2), 0), (SaveRule{.steps = 0, .seconds = 600}));
  EXPECT_EQ(choose_saves(with_failures(2, 2), 0).steps, 14);
  EXPECT_EQ(choose_saves({}, 30), (SaveRule{.steps = 0, .seconds = 30}));
  EXPECT_EQ(choose_saves(with_failures(2, 2), 30).steps, 14);
  EXPECT_EQ(to_text(choose_saves(with_failures(2, 2), 0)), "every 14 steps");
  EXPECT_EQ(to_text(choose_saves({}, 0)), "every 600 s");
}

TEST(SaveInterval, FallsWhereFailuresComeBeforeSaves) {
  History no_save = with_failures(2, 2);
  for (Attempt& attempt : no_save.attempts) attempt.ended->saves = 0;
  EXPECT_EQ(choose_saves(no_save, 0), (SaveRule{.steps = 0, .seconds = 50}));  // a failure a 200 s
  EXPECT_EQ(choose_saves(no_save, 30), (SaveRule{.steps = 0, .seconds = 30}));
  for (Attempt& attempt : no_save.attempts) attempt.ended->wall_s = 1;
  EXPECT_EQ(choose_saves(no_save, 0).seconds, 1);
  for (Attempt& attempt : no_save.attempts) attempt.ended->wall_s = 1e5;
  EXPECT_EQ(choose_saves(no_save, 0).seconds, 600);
}

}  // namespace
}  // namespace trireme::supervisor::test
