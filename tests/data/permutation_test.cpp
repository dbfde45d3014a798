// The order of samples: a bijection that depends on its key only, without an array.
#include "runtime/data/permutation.h"

#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::data {
namespace {

std::vector<Index> all(Index size, std::uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<Index> items;
  for (Index i = 0; i < size; ++i) items.push_back(permutation(i));
  return items;
}

TEST(Permutation, HitsEveryItemOnce) {
  for (const Index size : {1, 2, 3, 5, 31, 33, 255, 256, 257, 1000, 4096, 4097, 20001})
    for (const std::uint64_t key : {0ull, 1ull, 0x123456789abcdefull}) {
      const std::vector<Index> items = all(size, key);
      const std::set<Index> different(items.begin(), items.end());
      EXPECT_EQ(static_cast<Index>(different.size()), size);
      EXPECT_EQ(*different.begin(), 0);
      EXPECT_EQ(*different.rbegin(), size - 1);
    }
}

TEST(Permutation, DependsOnTheKeyOnly) {
  EXPECT_EQ(all(100, 7), all(100, 7));
  EXPECT_NE(all(100, 7), all(100, 8));
}

TEST(Permutation, IsComputedForSizesThatCannotBeStored) {
  const Permutation permutation((Index{1} << 61) + 3, 5);
  std::set<Index> items;
  for (Index i = 0; i < 1000; ++i) items.insert(permutation((Index{1} << 60) + i));
  EXPECT_EQ(items.size(), 1000u);
  EXPECT_GE(*items.begin(), 0);
  EXPECT_LT(*items.rbegin(), permutation.size());
}

// Over many keys every item is equally often at every place (chi-square, 81 cells, 99.99 % below
// 130).
TEST(Permutation, PutsEveryItemEverywhereEquallyOften) {
  constexpr Index size = 9, keys = 20000;
  std::vector<double> counts(size * size, 0);
  for (std::uint64_t key = 0; key < keys; ++key) {
    const std::vector<Index> items = all(size, key * 0x9E3779B97F4A7C15ull);
    for (Index i = 0; i < size; ++i)
      ++counts[static_cast<std::size_t>(i * size + items[static_cast<std::size_t>(i)])];
  }
  const double expected = static_cast<double>(keys) / size;
  double chi = 0;
  for (const double count : counts) chi += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi, 130);
}

// Neighbours do not stay neighbours: the mean distance of consecutive items is that of random ones,
// size / 3.
TEST(Permutation, SeparatesNeighbours) {
  constexpr Index size = 10007;
  const std::vector<Index> items = all(size, 42);
  double sum = 0;
  for (std::size_t i = 1; i < items.size(); ++i)
    sum += std::abs(static_cast<double>(items[i] - items[i - 1]));
  EXPECT_NEAR(sum / size, size / 3.0, size / 50.0);
}

TEST(Permutation, RejectsItemsOutside) {
  EXPECT_THROW(Permutation(0, 1), Error);
  EXPECT_THROW(Permutation(3, 1)(3), Error);
  EXPECT_THROW(Permutation(3, 1)(-1), Error);
}

}  // namespace
}  // namespace trireme::data
