// Stragglers on synthetic series: those that are slow are found, and noise is not.
#include "runtime/observe/stragglers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/core/median.h"
#include "tests/support/allocation_counter.h"

namespace trireme::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Steps of 10 ms with 3 % of noise, and one in twenty that takes up to three times as long.
class Noise {
 public:
  explicit Noise(unsigned seed) : random_(seed) {}
  TimeSeries series(const std::string& kind, double factor, int steps = 40) {
    std::normal_distribution<double> noise(1, 0.03);
    std::uniform_real_distribution<double> share(0, 1);
    TimeSeries made{kind, {}};
    for (int step = 0; step < steps; ++step) {
      const double spike = share(random_) < 0.05 ? 1 + 2 * share(random_) : 1;
      made.samples.push_back({step, 0.01 * factor * spike * std::max(0.5, noise(random_))});
    }
    return made;
  }

 private:
  std::mt19937 random_;
};

/// `factor`: of each rank.
std::vector<RankSeries> ranks_of(Noise& noise, int ranks,
                                 const std::function<double(int)>& factor) {
  std::vector<RankSeries> made;
  for (int rank = 0; rank < ranks; ++rank)
    made.push_back({rank, str("n", rank / 4), noise.series("stage 0", factor(rank))});
  return made;
}

TEST(RobustScore, IsNotShiftedByOutliers) {
  const std::vector<double> values = {10, 10, 11, 9, 10, 10, 500};
  EXPECT_EQ(median(values), 10);
  EXPECT_EQ(median({1, 2, 3, 10}), 2.5);
  EXPECT_EQ(median({}), 0);
  const RobustScore score = robust_score(500, values);
  EXPECT_EQ(score.ratio, 50);
  EXPECT_EQ(score.z, 490 / 0.1);  // half of them are equal: 1 % of the median counts
  EXPECT_NEAR(robust_score(14, std::vector<double>{8, 9, 10, 11, 14}).z, 4 / 1.4826, 1e-9);
  EXPECT_EQ(robust_score(0, std::vector<double>{0, 0}).z, 0);
}

TEST(Stragglers, AreNoneUpToATenthSlower) {
  Noise noise(1);
  for (int draw = 0; draw < 300; ++draw) {
    const int ranks = 3 + draw % 30;
    const int slow = draw % ranks;
    const auto found =
        find_stragglers(ranks_of(noise, ranks, [&](int rank) { return rank == slow ? 1.1 : 1; }));
    ASSERT_THAT(found.ranks, IsEmpty());
    ASSERT_THAT(found.nodes, IsEmpty());
  }
}

TEST(Stragglers, AreFoundAtHalfAgainAsSlow) {
  Noise noise(2);
  for (int draw = 0; draw < 300; ++draw) {
    const int ranks = 8 + draw % 30;
    const int slow = draw % ranks;
    const auto found =
        find_stragglers(ranks_of(noise, ranks, [&](int rank) { return rank == slow ? 1.5 : 1; }));
    ASSERT_EQ(found.ranks.size(), 1u);
    ASSERT_EQ(found.ranks[0].rank, slow);
    ASSERT_EQ(found.ranks[0].host, str("n", slow / 4));
    ASSERT_NEAR(found.ranks[0].ratio, 1.5, 0.1);
  }
}

TEST(Stragglers, MakeANodeSlowWhenMostOfItsRanksAre) {
  Noise noise(3);
  const auto found =
      find_stragglers(ranks_of(noise, 16, [](int rank) { return rank / 4 == 2 ? 1.6 : 1; }));
  ASSERT_EQ(found.nodes.size(), 1u);
  EXPECT_EQ(found.nodes[0].host, "n2");
  EXPECT_EQ(found.nodes[0].slow_ranks, 4);
  const auto two =
      find_stragglers(ranks_of(noise, 16, [](int rank) { return rank / 2 == 4 ? 1.6 : 1; }));
  EXPECT_EQ(two.ranks.size(), 2u);
  EXPECT_THAT(two.nodes, IsEmpty());
}

TEST(Stragglers, AreComparedWithinTheirKindOnly) {
  Noise noise(4);
  std::vector<TimeSeries> series;
  for (int rank = 0; rank < 4; ++rank) series.push_back(noise.series("stage 0", 1));
  for (int rank = 0; rank < 4; ++rank) series.push_back(noise.series("stage 1, loss", 2));
  EXPECT_THAT(find_slow(series), IsEmpty());
  series[6] = noise.series("stage 1, loss", 3);
  const auto found = find_slow(series);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].index, 6u);
}

TEST(Stragglers, AreSlowByRatioAsWellAsByDeviation) {
  const auto slow = [](const std::vector<double>& times) {
    std::vector<TimeSeries> series(times.size(), {"stage 0", {}});
    for (std::size_t i = 0; i < times.size(); ++i)
      for (int step = 0; step < 20; ++step) series[i].samples.push_back({step, times[i]});
    return find_slow(series).size();
  };
  EXPECT_EQ(slow({1, 1, 1, 1, 1.3}), 0u);        // z = 30
  EXPECT_EQ(slow({0.5, 0.8, 1, 1.2, 1.8}), 0u);  // z = 2.7
  EXPECT_EQ(slow({1, 1, 1, 1, 1.4}), 1u);
}

TEST(Stragglers, AreSoInMostOfTheLastStepsThatAllHave) {
  std::vector<TimeSeries> series(4, {"stage 0", {}});
  for (TimeSeries& one : series)
    for (int step = 0; step < 40; ++step) one.samples.push_back({step, 0.01});
  for (std::size_t step = 25; step < 40; ++step) series[1].samples[step].seconds = 0.03;
  EXPECT_THAT(find_slow(series), IsEmpty());  // 15 of 20
  series[1].samples[24].seconds = 0.03;
  EXPECT_EQ(find_slow(series).size(), 1u);
  series[3].samples.resize(19);  // too few in common
  EXPECT_THAT(find_slow(series), IsEmpty());
}

TEST(Stragglers, AreSoughtWithOneMedianForAllRanksOfAStep) {
  constexpr int ranks = 200, steps = 20;
  Noise noise(5);
  const std::vector<TimeSeries> series(ranks, noise.series("stage 0", 1, steps));
  const auto before = test::allocations_of_this_thread();
  find_slow(series);
  EXPECT_LT(test::allocations_of_this_thread() - before, ranks * steps);
}

TEST(Stragglers, AreNotSoughtAmongTwo) {
  Noise noise(6);
  EXPECT_THAT(
      find_stragglers(ranks_of(noise, 2, [](int rank) { return rank == 0 ? 3.0 : 1; })).ranks,
      IsEmpty());
}

}  // namespace
}  // namespace trireme::observe
