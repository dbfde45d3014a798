#include "runtime/core/text/line_clock.h"

#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr std::time_t day = 24 * 3600;
constexpr std::time_t noon = 1795867200;  // 2026-11-28, 12:00 in UTC

class LineClockTest : public testing::Test {
 protected:
  static void live_in(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  LineClockTest() { live_in("UTC0"); }
  ~LineClockTest() override { ::unsetenv("TZ"); }
};

TEST_F(LineClockTest, ShowsTheDateInTheFirstLineAndWhereTheDayChanges) {
  LineClock clock;
  EXPECT_EQ(clock.stamp(noon), "[2026-11-28 12:00:00]");
  EXPECT_EQ(clock.stamp(noon + 61), "[12:01:01]");
  EXPECT_EQ(clock.stamp(noon + day), "[2026-11-29 12:00:00]");
  EXPECT_EQ(clock.stamp(noon + day + 3), "[12:00:03]");
  EXPECT_EQ(clock.stamp(noon), "[2026-11-28 12:00:00]");  // a clock that was set back
}

TEST_F(LineClockTest, ShowsTheTimeOfThePlace) {
  live_in("EST5");
  EXPECT_EQ(LineClock().stamp(noon), "[2026-11-28 07:00:00]");
  EXPECT_EQ(day_of(noon - 8 * 3600), "2026-11-27");
}

}  // namespace
}  // namespace trireme
