// Which losses count as a spike.
#include "runtime/train/numerics/loss_spikes.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The steps, from 1, that complete a spike.
std::vector<int> spikes(const std::vector<double>& losses) {
  LossSpikes found;
  std::vector<int> steps;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (found.add(losses[i])) steps.push_back(static_cast<int>(i) + 1);
  return steps;
}

/// `count` losses around 2, which fall a little.
std::vector<double> calm(int count) {
  std::vector<double> losses;
  for (int i = 0; i < count; ++i) losses.push_back(2 - 0.001 * i + 0.05 * ((i * 7) % 5 - 2));
  return losses;
}

std::vector<double> with(std::vector<double> losses, const std::vector<double>& more) {
  losses.insert(losses.end(), more.begin(), more.end());
  return losses;
}

TEST(LossSpikes, AreFiveStepsInARowFarAboveTheMedian) {
  EXPECT_THAT(spikes(calm(300)), IsEmpty());
  EXPECT_THAT(spikes(with(calm(50), {9, 9, 9, 9, 9, 9, 9})), ElementsAre(55));
  EXPECT_THAT(spikes(with(calm(50), {9, 9, 9, 9, 2, 9, 9, 9, 9})), IsEmpty());
  EXPECT_THAT(spikes(with(calm(50), {2.3, 2.3, 2.3, 2.3, 2.3})), IsEmpty());
}

TEST(LossSpikes, AreReportedOnceEach) {
  const std::vector<double> spike(6, 9);
  EXPECT_THAT(spikes(with(with(with(calm(50), spike), calm(60)), spike)), ElementsAre(55, 121));
}

TEST(LossSpikes, NeedSomeStepsToCompareWith) {
  EXPECT_THAT(spikes(with(calm(10), {9, 9, 9, 9, 9})), IsEmpty());
}

TEST(LossSpikes, OfALossThatHardlyMovesAreMoreThanItsNoise) {
  const std::vector<double> flat(50, 2.0);
  EXPECT_THAT(spikes(with(flat, std::vector<double>(6, 2.1))), IsEmpty());
  EXPECT_THAT(spikes(with(flat, std::vector<double>(6, 2.2))), ElementsAre(55));
}

TEST(LossSpikes, TakeInfinityForALossAndPassOverWhatIsNoNumber) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_THAT(spikes(with(calm(50), {9, 9, nan, infinity, 9, nan, 9})), ElementsAre(57));
  EXPECT_THAT(spikes(with(calm(50), std::vector<double>(20, nan))), IsEmpty());
}

}  // namespace
}  // namespace trireme::train
