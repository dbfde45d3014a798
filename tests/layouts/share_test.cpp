// share() against all divisions of small numbers of items, enumerated.
#include "runtime/layouts/unequal/share.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/message_of.h"

namespace trireme::layouts {
namespace {

/// The least time of the last worker, over all divisions; infinity: there is none.
double least_of_all(const std::vector<Workers>& kinds, Index items) {
  std::vector<Workers> each;
  for (const Workers& kind : kinds)
    each.insert(each.end(), static_cast<std::size_t>(kind.count), kind);
  double least = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, Index, double)> give = [&](std::size_t next, Index left,
                                                                   double last) {
    if (next == each.size()) {
      if (left == 0) least = std::min(least, last);
      return;
    }
    const Workers& worker = each[next];
    for (Index n = 1; n <= std::min(left, worker.most); ++n)
      give(next + 1, left - n, std::max(last, worker.first + worker.each * static_cast<double>(n)));
  };
  give(0, items, 0);
  return least;
}

double last_of(const std::vector<Workers>& kinds, const std::vector<Share>& shares) {
  double last = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    last = std::max(last, seconds_of(kinds[k], shares[k]));
  return last;
}

Index sum_of(const std::vector<Workers>& kinds, const std::vector<Share>& shares) {
  Index sum = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    sum += kinds[k].count * shares[k].each + shares[k].more;
  return sum;
}

TEST(Share, EndsAsEarlyAsTheBestOfAllDivisions) {
  std::mt19937 random(7);
  const auto whole = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  int impossible = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<Workers> kinds;
    for (int k = whole(1, 3); k > 0; --k)
      // Tenths, which have no exact double: the last worker's time is compared bit by bit.
      kinds.push_back({whole(1, 2), 0.1 * whole(0, 20), 0.1 * whole(1, 30), whole(0, 9)});
    const Index items = whole(1, 14);
    const double least = least_of_all(kinds, items);
    const auto shares = share(kinds, items);
    ASSERT_EQ(shares.has_value(), least < std::numeric_limits<double>::infinity()) << round;
    if (!shares) {
      ++impossible;
      continue;
    }
    EXPECT_EQ(sum_of(kinds, *shares), items) << round;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      EXPECT_GE((*shares)[k].each, 1) << round;
      EXPECT_LE((*shares)[k].most(), kinds[k].most) << round;
      EXPECT_GE((*shares)[k].more, 0) << round;
      EXPECT_LE((*shares)[k].more, kinds[k].count) << round;
    }
    EXPECT_EQ(last_of(kinds, *shares), least) << round;
  }
  EXPECT_GT(impossible, 20);
  EXPECT_LT(impossible, 300);
}

TEST(Share, OfTheKnownExampleIsMoreThanTwiceAsFastAsEqualShares) {
  // 8 H100 + 8 A100 + 8 RTX 4090 by what their products reach, 512 micro-batches.
  const double h100 = 0.66 * 989, a100 = 0.84 * 312, rtx4090 = 1.01 * 165.2;
  const std::vector<Workers> kinds = {
      {8, 0, 1 / h100, 512}, {8, 0, 1 / a100, 512}, {8, 0, 1 / rtx4090, 512}};
  const auto shares = share(kinds, 512);
  ASSERT_TRUE(shares);
  const double equal = std::ceil(512.0 / 24) / rtx4090, last = last_of(kinds, *shares);
  const double ideal = 512 / (8 * (h100 + a100 + rtx4090));
  EXPECT_NEAR(equal / last, 2.2, 0.15);
  EXPECT_LT(last, 1.05 * ideal);
  EXPECT_GT((*shares)[0].each, (*shares)[1].each);
  EXPECT_GT((*shares)[1].each, (*shares)[2].each);
}

TEST(Share, OfSixteenThousandWorkersTakesNoLongerThanOfFew) {
  // Types are counted, not workers: that this ends at all is the test.
  const std::vector<Workers> kinds = {
      {8192, 1, 1.0, 1 << 20}, {4096, 2, 2.5, 1 << 20}, {4096, 0, 6.0, 1 << 20}};
  const auto shares = share(kinds, Index{1} << 24);
  ASSERT_TRUE(shares);
  EXPECT_EQ(sum_of(kinds, *shares), Index{1} << 24);
}

TEST(Share, RefusesAWorkerThatTakesNoTime) {
  EXPECT_THAT(message_of([] {
                share({{1, 0, 0, 1}}, 1);
              }),
              testing::HasSubstr("takes 0 s for an item; expected more than 0"));
}

double last_update(const std::vector<Updaters>& kinds, const std::vector<double>& parts) {
  double last = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) last = std::max(last, parts[k] * kinds[k].seconds);
  return last;
}

TEST(ShareSlices, EndsNoLaterThanAnyOtherPartsThatMemoryHolds) {
  const std::vector<Updaters> cases[] = {{{1, 1, 1}, {1, 3, 1}},     {{2, 1, 0.2}, {1, 3, 1}},
                                         {{1, 1, 0}, {3, 2, 1}},     {{2, 5, 0.3}, {2, 1, 0.25}},
                                         {{1, 2, 0.5}, {1, 2, 0.5}}, {{4, 1, 0.1}, {1, 9, 0.7}}};
  for (const std::vector<Updaters>& kinds : cases) {
    const auto parts = share_slices(kinds);
    ASSERT_TRUE(parts);
    double sum = 0;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      sum += kinds[k].count * (*parts)[k];
      EXPECT_LE((*parts)[k], kinds[k].most + 1e-12);
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    double least = std::numeric_limits<double>::infinity();
    constexpr int steps = 10'000;
    for (int i = 0; i <= steps; ++i) {
      const double first = static_cast<double>(i) / steps / kinds[0].count,
                   second = (1 - kinds[0].count * first) / kinds[1].count;
      if (first <= kinds[0].most && second <= kinds[1].most)
        least = std::min(least, last_update(kinds, {first, second}));
    }
    EXPECT_LE(last_update(kinds, *parts), least + 1e-12);
    EXPECT_NEAR(last_update(kinds, *parts), least, 1e-3);
  }
  EXPECT_FALSE(share_slices({{2, 1, 0.2}, {1, 3, 0.5}}));
  EXPECT_EQ(seconds_of_equal_slices({{2, 1, 1}, {1, 6, 1}}), 2);
}

TEST(ShareSlices, BecomeSmallWholeNumbers) {
  using testing::ElementsAre;
  EXPECT_THAT(whole_shares({0.75, 0.25}), ElementsAre(3, 1));
  EXPECT_THAT(whole_shares({0.1, 0.1}), ElementsAre(1, 1));
  EXPECT_THAT(whole_shares({0, 0.5}), ElementsAre(0, 1));
  EXPECT_THAT(whole_shares({0.301, 0.1}), ElementsAre(3, 1));
  for (const double part : {0.9, 0.61, 0.123, 0.0101}) {
    const std::vector<Index> whole = whole_shares({1, part});
    EXPECT_NEAR(static_cast<double>(whole[1]) / static_cast<double>(whole[0]), part, 0.03 * part);
  }
}

}  // namespace
}  // namespace trireme::layouts
