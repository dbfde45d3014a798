// Random numbers: the reference vectors of Philox, what they depend on, and their distributions.
#include "trireme/core/random.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Known answers of Random123's philox4x32-10 for a zero counter and key.
TEST(Philox, MatchesTheReferenceVectors) {
  const Philox p = philox(0, 0);
  EXPECT_EQ(p[0], 0x6627e8d5u);
  EXPECT_EQ(p[1], 0xe169c58du);
  EXPECT_EQ(p[2], 0xbc57ac4cu);
  EXPECT_EQ(p[3], 0x9b00dbd8u);
}

TEST(Random, DependsOnSeedNameAndStep) {
  const Random a = random_for(1, "wte", 0);
  EXPECT_EQ(a.key, random_for(1, "wte", 0).key);
  EXPECT_NE(a.key, random_for(2, "wte", 0).key);
  EXPECT_NE(a.key, random_for(1, "wpe", 0).key);
  EXPECT_NE(a.key, random_for(1, "wte", 1).key);
}

TEST(Random, BitsAreTheLanesOfPhiloxInOrder) {
  const Random r = random_for(3, "lanes");
  for (Index i = 0; i < 64; ++i)
    EXPECT_EQ(r.bits(i),
              philox(static_cast<std::uint64_t>(i / 4), r.key)[static_cast<std::size_t>(i % 4)]);
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  const Random r = random_for(11, "uniform");
  constexpr int n = 100000, bins = 10;
  int count[bins] = {};
  for (int i = 0; i < n; ++i) {
    const float x = r.uniform(i);
    ASSERT_GE(x, 0.0f);
    ASSERT_LT(x, 1.0f);
    ++count[static_cast<int>(x * bins)];
  }
  for (const int c : count) EXPECT_NEAR(c, n / bins, 500);  // five standard deviations
}

TEST(Random, NormalHasUnitVarianceAndZeroMean) {
  const Random r = random_for(7, "normal");
  double sum = 0, squares = 0;
  constexpr int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double x = r.normal(i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
}

}  // namespace
}  // namespace trireme
