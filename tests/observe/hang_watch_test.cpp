// When a job counts as hung: limits by phase, and what is no hang. Times are numbers here; nothing
// waits.
#include "runtime/observe/hang/hang_watch.h"

#include <vector>

#include <gtest/gtest.h>

namespace trireme::observe {
namespace {

using Action = HangWatch::Action;
using Kind = Verdict::Kind;

/// Polls every 0.5 s. All ranks are in a step, with gaps of at most 0.1 s between ops, so the limit
/// is 10 s.
class Series {
 public:
  explicit Series(int ranks = 2, const HangLimits& limits = {}) : watch_({ranks}, limits) {
    ranks_.resize(static_cast<std::size_t>(ranks), {1, Phase::step, 0.1});
    verdict_.kind = Kind::rank;
  }
  void answer(Kind kind, bool certain) {
    verdict_.kind = kind;
    verdict_.certain = certain;
  }
  void stop_rank(bool stopped) { verdict_.stopped = stopped; }
  void enter(Phase phase) {
    for (RankProgress& rank : ranks_) rank.phase = phase;
  }
  void enter(std::size_t rank, Phase phase) { ranks_[rank].phase = phase; }
  void move() { ++ranks_[0].ops; }
  /// The job stands still; returns when there was an action, by the clock, or -1.
  double quiet_until(Action action, double at_most_s) {
    for (double end = now_s_ + at_most_s; now_s_ < end;)
      if (poll(0.5) == action) return now_s_;
    return -1;
  }
  Action poll(double after_s) {
    now_s_ += after_s;
    return watch_
        .poll(now_s_, ranks_,
              [&] {
                ++asked_;
                return verdict_;
              })
        .action;
  }
  int asked() const { return asked_; }

 private:
  HangWatch watch_;
  std::vector<RankProgress> ranks_;
  Verdict verdict_;
  double now_s_ = 0;
  int asked_ = 0;
};

TEST(HangLimit, OfAStepIsSeveralTimesTheLongestGap) {
  const auto limit = [](double gap_s) { return hang_limit_s({1, Phase::step, gap_s}, {4}, {}); };
  EXPECT_EQ(limit(0.1), 10);
  EXPECT_EQ(limit(7), 35);
  EXPECT_EQ(limit(0), 120);  // the first step
}

TEST(HangLimit, GrowsNoMoreWithAGapThatWasAPause) {
  for (const Phase phase : {Phase::step, Phase::evaluate}) {
    EXPECT_EQ(hang_limit_s({1, phase, 100}, {4}, {}), 500);
    EXPECT_EQ(hang_limit_s({1, phase, 3600}, {4}, {}), 600);  // of 120 s, as in the first step
    HangLimits slow;
    slow.step_s = 1000;
    EXPECT_EQ(hang_limit_s({1, phase, 3600}, {4}, slow), 5000);
  }
}

TEST(HangLimit, OfAStartGrowsWithTheRanks) {
  EXPECT_EQ(hang_limit_s({1, Phase::load, 0}, {4}, {}), 60);
  EXPECT_EQ(hang_limit_s({1, Phase::mesh, 0}, {1000}, {}), 110);
  EXPECT_EQ(hang_limit_s({1, Phase::save_wait, 0.1}, {4}, {}), 600);
  EXPECT_EQ(hang_limit_s({1, Phase::program, 0.1}, {4}, {}), 600);  // whatever it does there
}

TEST(HangLimit, OfTheStepCanBeSet) {
  HangLimits limits;
  limits.step_s = 3;
  EXPECT_EQ(hang_limit_s({1, Phase::step, 0.1}, {4}, limits), 3);
}

TEST(HangWatch, EndsAtTheLimitWhatIsCertain) {
  Series series;
  series.answer(Kind::rank, true);
  EXPECT_EQ(series.quiet_until(Action::end, 100), 10.5);  // 0.5 s: the first poll
  EXPECT_EQ(series.asked(), 1);
}

TEST(HangWatch, LogsASuspicionOnceAndEndsAtTwiceTheLimit) {
  Series series;
  series.answer(Kind::group, false);
  EXPECT_EQ(series.quiet_until(Action::log, 100), 10.5);
  EXPECT_EQ(series.quiet_until(Action::log, 9.5), -1);
  EXPECT_EQ(series.poll(0.5), Action::end);
}

TEST(HangWatch, EndsAtTwiceTheLimitWhereNoRankIsSuspect) {
  Series series;
  series.answer(Kind::none, false);
  EXPECT_EQ(series.quiet_until(Action::log, 100), 10.5);
  EXPECT_EQ(series.quiet_until(Action::end, 100), 20.5);
}

TEST(HangWatch, EndsRanksThatHaveEndedButDoNotExit) {
  for (const Phase other : {Phase::finished, Phase::failed}) {
    Series series;
    series.answer(Kind::exit, true);
    series.enter(Phase::finished);
    series.enter(1, other);
    EXPECT_EQ(series.quiet_until(Action::end, 100), 60.5);
  }
}

TEST(HangWatch, EndsAJobOfWhichSomeRanksHaveEnded) {
  for (const Phase ended : {Phase::finished, Phase::failed}) {
    Series series;
    series.answer(Kind::rank, true);
    series.enter(1, ended);
    EXPECT_EQ(series.quiet_until(Action::end, 100), 10.5);
  }
}

TEST(HangWatch, StartsAnewWhenTheJobMoves) {
  Series series;
  series.answer(Kind::group, false);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(series.quiet_until(Action::log, 1.5), -1);
    series.move();
  }
  EXPECT_EQ(series.asked(), 0);
  EXPECT_NE(series.quiet_until(Action::log, 11), -1);
  series.move();
  EXPECT_EQ(series.quiet_until(Action::log, 10), -1);
  EXPECT_NE(series.quiet_until(Action::log, 100), -1);  // a second one is logged too
}

TEST(HangWatch, LearnsFromQuietTimesOfTheWholeJob) {
  Series series;
  series.answer(Kind::group, false);
  EXPECT_EQ(series.quiet_until(Action::log, 8), -1);
  series.move();  // a collective over a slow network has ended, as one does in every step
  EXPECT_EQ(series.poll(0.5), Action::none);
  EXPECT_EQ(series.quiet_until(Action::log, 39), -1);
  EXPECT_NE(series.quiet_until(Action::log, 2), -1);  // 5 times 8 s
}

TEST(HangWatch, LearnsNothingFromOtherPhasesOrPauses) {
  Series series;
  series.answer(Kind::debugger, true);
  EXPECT_NE(series.quiet_until(Action::log, 11), -1);
  EXPECT_EQ(series.quiet_until(Action::log, 100), -1);
  series.move();
  series.enter(Phase::evaluate);
  EXPECT_EQ(series.poll(0.5), Action::none);
  series.answer(Kind::rank, true);
  EXPECT_EQ(series.quiet_until(Action::end, 50), -1);
  series.enter(Phase::step);
  EXPECT_EQ(series.poll(0.5), Action::none);
  EXPECT_EQ(series.quiet_until(Action::end, 9.5), -1);
  EXPECT_EQ(series.poll(0.5), Action::end);
}

TEST(HangWatch, StartsAnewWhenItWasLateItself) {
  Series series;
  series.answer(Kind::rank, true);
  EXPECT_EQ(series.quiet_until(Action::end, 9), -1);
  EXPECT_EQ(series.poll(3600), Action::none);  // the machine slept
  EXPECT_EQ(series.quiet_until(Action::end, 9.5), -1);
  EXPECT_EQ(series.poll(0.5), Action::end);
}

TEST(HangWatch, NeverEndsWhatIsDebuggedOrStopped) {
  for (const Kind kind : {Kind::debugger, Kind::stopped}) {
    Series series;
    series.answer(kind, true);
    EXPECT_NE(series.quiet_until(Action::log, 11), -1);
    EXPECT_EQ(series.quiet_until(Action::end, 10000), -1);
    // Once it runs again, it has the whole limit again, without a sign of progress.
    EXPECT_EQ(series.quiet_until(Action::end, 7), -1);
    series.answer(Kind::rank, true);
    EXPECT_EQ(series.quiet_until(Action::end, 10), -1);
    EXPECT_NE(series.quiet_until(Action::end, 1), -1);
  }
}

TEST(HangWatch, EndsAStoppedRankAtTheLimitOfAStepInEveryPhase) {
  for (const bool stopped : {false, true}) {
    Series series;
    series.enter(Phase::save_wait);
    series.answer(Kind::rank, true);
    series.stop_rank(stopped);
    EXPECT_EQ(series.quiet_until(Action::end, 1000), stopped ? 10.5 : 600.5);
  }
}

TEST(HangWatch, GivesStorageTenTimesTheLimit) {
  Series series;
  series.enter(Phase::load);
  series.answer(Kind::storage, false);
  EXPECT_EQ(series.quiet_until(Action::log, 100), 60.5);
  EXPECT_EQ(series.quiet_until(Action::end, 1000), 600.5);
}

TEST(HangWatch, TakesTheLongestLimitOfAnyRank) {
  Series series(3);
  series.answer(Kind::rank, true);
  series.enter(Phase::evaluate);
  EXPECT_EQ(series.quiet_until(Action::end, 100), 60.5);
}

TEST(HangWatch, WaitsForRanksWithoutPagesAsForAStart) {
  HangWatch watch({1});
  const auto ask = [] {
    Verdict verdict;
    verdict.kind = Kind::rank;
    verdict.certain = true;
    return verdict;
  };
  for (int i = 0; i < 60; ++i) EXPECT_EQ(watch.poll(i, {}, ask).action, Action::none);
  EXPECT_EQ(watch.poll(61, {}, ask).action, Action::end);
}

}  // namespace
}  // namespace trireme::observe
