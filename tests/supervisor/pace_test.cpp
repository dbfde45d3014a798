// How long steps and saves take, and the grace that follows from it.
#include <gtest/gtest.h>

#include "launch/supervisor/decide/attempt_watch.h"

namespace trireme::supervisor::test {
namespace {

TEST(Pace, MeasuresASaveFromTheEndOfItsStep) {
  Pace pace;
  EXPECT_EQ(pace.save_s(), 0);
  for (Index step = 1; step <= 30; ++step) pace.step(step, 2, 100 + 2 * static_cast<double>(step));
  pace.durable(10, 135);  // step 10 was seen at 120
  EXPECT_EQ(pace.save_s(), 15);
  pace.durable(20, 145);  // 5 s: the longest counts
  EXPECT_EQ(pace.save_s(), 15);
  pace.durable(20, 1000);  // seen again
  EXPECT_EQ(pace.save_s(), 15);
}

TEST(Pace, DoesNotMeasureASaveOfAStepThatItHasNotSeen) {
  Pace pace;
  pace.durable(10, 50);
  pace.step(11, 1, 60);
  pace.step(13, 1, 61);
  pace.durable(12, 70);
  EXPECT_EQ(pace.save_s(), 0);
}

TEST(Pace, KnowsASaveThatIsOverAtOnceFromNone) {
  Pace pace;
  pace.step(1, 1, 60);
  pace.durable(1, 60);
  EXPECT_GT(pace.save_s(), 0);
}

TEST(Pace, CountsSavesAndTheStepsBetweenThem) {
  Pace pace;
  pace.durable(5, 0);  // of an earlier attempt
  for (Index step = 6; step <= 40; ++step) pace.step(step, 1, static_cast<double>(step));
  pace.durable(10, 41);
  EXPECT_EQ(pace.saves(), 1);
  EXPECT_EQ(pace.save_interval(), 0);
  pace.durable(20, 42);
  pace.durable(20, 43);  // seen again
  pace.durable(35, 44);
  EXPECT_EQ(pace.saves(), 3);
  EXPECT_EQ(pace.save_interval(), 12.5);
}

TEST(Pace, GivesTheMeanOfAllStepsAndTheLongestOfTheLast20) {
  Pace pace;
  pace.step(1, 100, 0);
  for (Index step = 2; step <= 21; ++step) pace.step(step, step == 15 ? 3 : 1, 0);
  EXPECT_EQ(pace.longest_step_s(), 3);
  EXPECT_NEAR(pace.mean_step_s(), 122.0 / 21, 1e-9);
}

TEST(Grace, IsThreeSavesAndTwoStepsButAtLeast20Seconds) {
  EXPECT_EQ(measured_grace_s(100, 7), 314);
  EXPECT_EQ(measured_grace_s(1, 1), 20);
  EXPECT_EQ(measured_grace_s(0, 1), 600);  // no save was seen
  EXPECT_EQ(measured_grace_s(1, 0), 600);  // it loads
}

}  // namespace
}  // namespace trireme::supervisor::test
