// TrainingSpec::optimizer_shares: what is refused, and which data ranks then differ in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"

#include "runtime/rank_plan/rank_memory.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;

Model one_layer() {
  return Model([](Graph& g) {
    const Value x = linear(g.input("x", {1, 64}), "up", 64);
    return squared_error(x, g.input("y", {1, 64}));
  });
}

TrainingSpec with_shares(int data, const DataShares& shares) {
  TrainingSpec spec;
  spec.mesh = MeshShape(data, 1, 1);
  spec.global_batch_size = 12;
  spec.update = Update::sharded;
  spec.optimizer_shares = shares;
  return spec;
}

PlannedTraining planned(const TrainingSpec& spec, int rank) {
  return {one_layer(), spec, rank, cpu_traits()};
}

TEST(OptimizerSharesOfASpec, ThatDoNotFitAreRefused) {
  const auto refusal = [](const TrainingSpec& spec) {
    return message_of([&] { planned(spec, 0); });
  };
  EXPECT_EQ(refusal(with_shares(2, {3, 2, 1})),
            "--optimizer-shares 3,2,1 are 3 shares for 2 data ranks; give one share "
            "for each data rank");
  EXPECT_EQ(refusal(with_shares(2, {3, -1})),
            "--optimizer-shares 3,-1: each share has to be a whole number from 0 to "
            "1048576, not -1");
  EXPECT_EQ(refusal(with_shares(2, {0, 0})),
            "--optimizer-shares 0,0: one of them has to be more than 0");
  TrainingSpec replicated = with_shares(2, {3, 1});
  replicated.update = Update::replicated;
  EXPECT_EQ(refusal(replicated),
            "--optimizer-shares 3,1 divide a sharded update, and this one is "
            "replicated");
  EXPECT_EQ(refusal(with_shares(2, {3, 0})), "");
}

TEST(OptimizerSharesOfASpec, DivideTheStateInTheirProportion) {
  // 64 x 64 weights, and 64 biases: 260 lines of 16 elements.
  for (const auto& [shares, rank, lines] :
       {std::tuple(DataShares{3, 1}, 0, 195), std::tuple(DataShares{3, 1}, 1, 65),
        std::tuple(DataShares{}, 1, 130), std::tuple(DataShares{5, 5}, 1, 130),
        std::tuple(DataShares{0, 2}, 0, 0), std::tuple(DataShares{0, 2}, 1, 260)})
    EXPECT_EQ(planned(with_shares(2, shares), rank).flat.state_count(), 16 * lines)
        << describe(shares) << " rank " << rank;
}

TEST(OptimizerSharesOfASpec, AndMicroBatchesMakeDataRanksDiffer) {
  EXPECT_THAT(distinct_data_ranks(with_shares(6, {})), ElementsAre(0, 5));
  EXPECT_THAT(distinct_data_ranks(with_shares(6, {1, 2, 2, 2, 1, 2})), ElementsAre(0, 1, 4, 5));
  TrainingSpec both = with_shares(6, {1, 2, 2, 2, 1, 2});
  both.data_parallel_shares = {2, 2, 2, 2, 3, 1};
  EXPECT_THAT(distinct_data_ranks(both), ElementsAre(0, 1, 3, 4, 5));
}

}  // namespace
}  // namespace trireme
