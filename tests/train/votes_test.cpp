#include "runtime/train/votes.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(Votes, GiveEachContributorTheSumOfItsOwnVotesInOrder) {
  double mine[] = {1, 0, 1e9};
  std::vector<std::pair<int, double>> taken;
  Votes votes;
  for (int i = 0; i < 3; ++i)
    votes.add([&mine, i] { return mine[i]; },
              [&taken, i](double sum) {
                taken.push_back({i, sum});
              });
  ASSERT_EQ(votes.count(), 3u);

  std::vector<double> sums(4, 7.0);
  votes.cast(sums);
  EXPECT_EQ(sums, (std::vector<double>{1, 0, 1e9, 7}));
  EXPECT_TRUE(taken.empty());

  mine[1] = 5;  // votes of the next step change nothing
  votes.settle(std::vector<double>{2, 3, 4});
  EXPECT_EQ(taken, (std::vector<std::pair<int, double>>{{0, 2}, {1, 3}, {2, 4}}));
}

}  // namespace
}  // namespace trireme::train
