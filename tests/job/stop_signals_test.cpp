// Signals that stop a job: the first is a vote, the second ends the process.
#include "runtime/job/stop_signals.h"

#include <chrono>

#include <gtest/gtest.h>
#include <unistd.h>

namespace trireme::job {
namespace {

/// Waits until the watching thread has seen the first signal.
void wait_for_first(const StopSignals& signals) {
  while (signals.first() == 0) std::this_thread::yield();
}

bool is_blocked(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

TEST(StopSignals, TheFirstSignalIsAVote) {
  for (const int signal : {SIGUSR1, SIGTERM}) {
    StopSignals signals;
    signals.watch();
    EXPECT_EQ(signals.first(), 0);
    kill(getpid(), signal);
    wait_for_first(signals);
    EXPECT_EQ(signals.first(), signal);
  }
}

TEST(StopSignals, ASignalBeforeTheWatchBeginsIsKept) {
  StopSignals signals;
  kill(getpid(), SIGUSR1);
  signals.watch();
  wait_for_first(signals);
  EXPECT_EQ(signals.first(), SIGUSR1);
}

TEST(StopSignals, ASignalThatWaitsAlreadyIsKeptWhenOthersAreLetThrough) {
  for (const int signal : {SIGUSR1, SIGTERM}) {
    StopSignals signals;
    kill(getpid(), signal);
    signals.unblock();
    signals.watch();
    wait_for_first(signals);
    EXPECT_EQ(signals.first(), signal);
  }
}

TEST(StopSignals, TheWatchBlocksWhatWasLetThrough) {
  StopSignals signals;
  signals.unblock();
  EXPECT_FALSE(is_blocked(SIGTERM));
  signals.watch();
  kill(getpid(), SIGTERM);
  wait_for_first(signals);
  EXPECT_EQ(signals.first(), SIGTERM);
}

TEST(StopSignals, ThreadsDoNotGetThem) {
  StopSignals signals;
  bool blocked = false;
  std::thread([&] { blocked = is_blocked(SIGUSR1) && is_blocked(SIGTERM); }).join();
  EXPECT_TRUE(blocked);
}

TEST(StopSignals, LeavesNothingBehindAndOtherSignalsAlone) {
  for (const bool watched : {false, true}) {
    {
      StopSignals signals;
      if (watched) signals.watch();
      for (const int other : {SIGINT, SIGHUP, SIGUSR2, SIGCHLD}) EXPECT_FALSE(is_blocked(other));
    }
    EXPECT_FALSE(is_blocked(SIGUSR1));
    EXPECT_FALSE(is_blocked(SIGTERM));
  }
}

using StopSignalsDeathTest = testing::Test;

/// Ends as the second signal ends it, or with 0 after `patience`.
[[noreturn]] void signal_twice(int first, int second, StopSignals::Seconds repeated,
                               std::chrono::seconds patience) {
  StopSignals signals(repeated);
  signals.watch();
  kill(getpid(), first);
  wait_for_first(signals);
  kill(getpid(), second);
  sigset_t pending;
  do {  // until the watching thread has taken it
    std::this_thread::yield();
    sigpending(&pending);
  } while (sigismember(&pending, second) == 1);
  std::this_thread::sleep_for(patience);  // as in a collective
  _exit(0);
}

TEST(StopSignalsDeathTest, TheSecondSignalEndsTheProcessAtOnce) {
  constexpr StopSignals::Seconds none(0), ages(1e6);
  constexpr std::chrono::seconds patience(20);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(signal_twice(SIGUSR1, SIGUSR1, none, patience),
              testing::ExitedWithCode(128 + SIGUSR1), "");
  EXPECT_EXIT(signal_twice(SIGTERM, SIGTERM, none, patience),
              testing::ExitedWithCode(128 + SIGTERM), "");
  EXPECT_EXIT(signal_twice(SIGUSR1, SIGTERM, ages, patience),
              testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST(StopSignalsDeathTest, OneSignalThatASchedulerDeliversTwiceCountsOnce) {
  constexpr StopSignals::Seconds ages(1e6);
  constexpr std::chrono::seconds patience(1);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(signal_twice(SIGUSR1, SIGUSR1, ages, patience), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(signal_twice(SIGTERM, SIGTERM, ages, patience), testing::ExitedWithCode(0), "");
}

TEST(StopSignalsDeathTest, WhatIsNotWatchedDoesWhatItAlwaysDid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopSignals signals;
        kill(getpid(), SIGTERM);
        signals.restore();
        _exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(
      {
        StopSignals signals;
        signals.unblock();
        kill(getpid(), SIGUSR1);
        _exit(0);
      },
      testing::KilledBySignal(SIGUSR1), "");
}

}  // namespace
}  // namespace trireme::job
