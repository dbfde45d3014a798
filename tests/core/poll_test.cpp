// How often a wait asks, and how long it pauses.
#include "runtime/core/poll.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// Moves on by 1 µs with every question and every offer of the core.
struct CountedClock {
  std::chrono::steady_clock::time_point time;
  int spent = 0;
  auto now() const { return time; }
  void spend() { ++spent, time += microseconds(1); }
};

struct Wait {
  int questions = 0;
  microseconds late{};  // by which the end was seen later than it was there
};

/// A wait for something that is ready after `ready`.
Wait wait_for(microseconds ready) {
  CountedClock clock;
  const auto end = clock.time + ready;
  Wait wait;
  poll(
      [&] {
        ++wait.questions;
        const bool done = clock.time >= end;
        if (!done) clock.time += microseconds(1);
        return done;
      },
      clock);
  wait.late = std::chrono::duration_cast<microseconds>(clock.time - end);
  return wait;
}

TEST(Poll, WhatIsReadyIsAskedForOnce) { EXPECT_EQ(wait_for(microseconds(0)).questions, 1); }

TEST(Poll, AShortWaitHasNoPauses) {
  EXPECT_EQ(wait_for(microseconds(49)).questions, 50);
  EXPECT_EQ(wait_for(microseconds(49)).late, microseconds(0));
}

TEST(Poll, ALongWaitAsksOnceInTwentyMicroseconds) {
  const int before = wait_for(microseconds(10'000)).questions;
  const int after = wait_for(microseconds(31'000)).questions;
  EXPECT_LT(before, 600);
  EXPECT_EQ(after - before, 1000);  // 20 µs of pause, 1 µs of question
}

TEST(Poll, TheEndIsSeenASixteenthOfTheWaitLaterAtMostAndNeverMoreThanTwentyMicroseconds) {
  for (int ready = 0; ready < 2000; ++ready) {
    const Wait wait = wait_for(microseconds(ready));
    EXPECT_LE(wait.late, microseconds(std::min(ready / 16 + 1, 20))) << ready << " µs";
  }
}

TEST(Poll, PausesGrowAndStayBounded) {
  nanoseconds last{};
  for (nanoseconds waited{}; waited < microseconds(1000); waited += nanoseconds(500)) {
    EXPECT_GE(pause_after(waited), last);
    last = pause_after(waited);
  }
  EXPECT_EQ(pause_after(std::chrono::hours(1)), microseconds(20));
}

}  // namespace
}  // namespace trireme
