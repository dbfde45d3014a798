// Ranks of unequal speed: the same training as one rank with unequal shares of the micro-batches,
// and with stages of unequal work.
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/unequal_ranks.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct Shared {
  Layout layout;
  DataShares shares;
  std::vector<double> speeds = {};
  std::optional<ScheduleKind> schedule = {};
  friend void PrintTo(const Shared& s, std::ostream* out) {
    PrintTo(s.layout, out);
    *out << " shares " << describe(s.shares);
  }
};

const std::vector<Shared> all_shared = {
    {{2, 1, 1, 1, 2}, {3, 1}},          {{2, 1, 1, 1, 1, true}, {1, 7}},
    {{3, 2, 1, 1, 1, true}, {2, 1, 1}}, {{3, 2, 1, 1, 1}, {1, 2, 1}},
    {{2, 2, 1, 2, 1}, {3, 1}},          {{2, 2, 1, 2, 1, true}, {1, 3}},
    {{2, 1, 2, 1, 2, true}, {1, 3}},    {{2, 4, 1, 1, 1}, {7, 1}},
};

Options options_with(const Shared& shared) {
  Options options = options_for(shared.layout);
  options.data_parallel_shares = shared.shares;
  options.stage_speeds = shared.speeds;
  options.schedule = shared.schedule.value_or(options.schedule);
  options.check_replicas = 1;  // a difference in bits stops the job
  options.verify_step = 2;
  return options;
}

Model shared_model(Index batch) {
  Model model([batch](Graph& g) { return mlp(g, batch); });
  model.result = [batch](Graph& g) { return mlp_blocks(g, batch); };
  return model;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<float> outputs;
};

Trained train_shared(const Shared& shared, const ThreadTransport& transport = {}) {
  Trained trained;
  on_ranks(
      shared.layout, options_with(shared),
      [&](Context& context) {
        Trainer trainer(context, shared_model(shared.layout.micro_batch));
        Sines data;
        const bool speaks = context.mesh().rank() == 0;
        for (int i = 0; i < 5; ++i) {
          const StepMetrics step = trainer.step(data);
          if (speaks) trained.losses.push_back(step.loss), trained.norms.push_back(step.grad_norm);
        }
        const double valid = trainer.evaluate(data, 2);
        if (speaks) trained.losses.push_back(valid);
        trainer.outputs(data, 19, [&](Index, const Tensor& row) {
          trained.outputs.insert(trained.outputs.end(), row.as<float>(), row.as<float>() + width);
        });
      },
      transport);
  return trained;
}

void expect_near(const Trained& other, const Trained& one) {
  ASSERT_EQ(other.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(other.losses[i], one.losses[i], 2e-7 * one.losses[i]) << i;
  for (std::size_t i = 0; i < one.norms.size(); ++i)
    EXPECT_NEAR(other.norms[i], one.norms[i], 1e-5 * one.norms[i]) << i;
  ASSERT_EQ(other.outputs.size(), one.outputs.size());
  for (std::size_t i = 0; i < one.outputs.size(); ++i)
    EXPECT_NEAR(other.outputs[i], one.outputs[i], 1e-5) << i;
}

TEST(DataShares, TrainEvaluateAndAnswerLikeOneRank) {
  const Trained one = train_shared({{1, 1, 1, 1, 8}, {}});
  ASSERT_EQ(one.losses.size(), 6u);
  ASSERT_EQ(one.outputs.size(), static_cast<std::size_t>(19 * width));
  for (const Shared& shared : all_shared) {
    SCOPED_TRACE(testing::PrintToString(shared));
    expect_near(train_shared(shared), one);
  }
}

TEST(DataShares, TrainLikeOneRankOnUnequalNodesWhoseOperationsAreDelayed) {
  const Trained one = train_shared({{1, 1, 1, 1, 8}, {}});
  for (const Shared& shared : {all_shared[2], all_shared[5], all_shared[6]}) {
    SCOPED_TRACE(testing::PrintToString(shared));
    const ThreadTransport nodes{.hostile_seed = 3,
                                .ranks_per_node = shared.layout.data == 3 ? 4 : 3,
                                .reach = ThreadReachable::allocated};
    expect_near(train_shared(shared, nodes), one);
  }
}

TEST(DataShares, TrainLikeOneRankWithZeroBubbleSchedules) {
  const Trained one = train_shared({{1, 1, 1, 1, 8}, {}});
  expect_near(train_shared({{2, 2, 1, 1, 1, true}, {3, 1}, {1, 3}, ScheduleKind::zero_bubble}),
              one);
  expect_near(train_shared({{2, 2, 1, 2, 1, true}, {1, 3}, {}, ScheduleKind::zero_bubble_v}), one);
}

TEST(DataShares, GiveTheSameBitsWhenRepeated) {
  for (const Shared& shared : {all_shared[2], all_shared[5]}) {
    SCOPED_TRACE(testing::PrintToString(shared));
    const Trained first = train_shared(shared), second = train_shared(shared);
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.norms, second.norms);
    EXPECT_EQ(first.outputs, second.outputs);
  }
}

TEST(DataShares, ThatAreEqualGiveTheBitsOfNone) {
  const Trained with = train_shared({{2, 2, 1, 1, 1, true}, {2, 2}}),
                none = train_shared({{2, 2, 1, 1, 1, true}, {}});
  EXPECT_EQ(with.losses, none.losses);
  EXPECT_EQ(with.norms, none.norms);
}

/// Which samples each data rank has read.
class ReadSines final : public Sines {
 public:
  explicit ReadSines(std::vector<Index>& read) : read_(read) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    read_.push_back(sample);
    return Sines::fill(sample, out);
  }

 private:
  std::vector<Index>& read_;
};

TEST(DataShares, AreConsecutiveSamplesOfTheSameGlobalBatch) {
  const Shared shared{{3, 1, 1, 1, 2}, {1, 2, 1}};
  std::map<int, std::vector<Index>> read;
  std::mutex mutex;
  on_ranks(shared.layout, options_with(shared), [&](Context& context) {
    Trainer trainer(context, shared_model(2));
    std::vector<Index> mine;
    ReadSines data(mine);
    trainer.step(data);
    const std::lock_guard lock(mutex);
    read[context.mesh().rank()] = mine;
  });
  EXPECT_THAT(read, ElementsAre(Pair(0, ElementsAre(0, 1)), Pair(1, ElementsAre(2, 3, 4, 5)),
                                Pair(2, ElementsAre(6, 7))));
}

std::vector<double> fit(const Shared& shared, const ScratchDirectory& folder, Index last) {
  return losses_of_fit(folder, shared.layout, options_with(shared), last,
                       shared_model(shared.layout.micro_batch));
}

TEST(DataShares, MayChangeWhereAJobResumes) {
  const ScratchDirectory straight, changed;
  const std::vector<double> one = fit({{1, 1, 1, 1, 8}, {}}, straight, 5);
  fit({{2, 1, 1, 1, 2, true}, {3, 1}}, changed, 2);
  fit({{2, 1, 1, 1, 2}, {1, 3}}, changed, 3);
  fit({{3, 2, 1, 1, 1, true}, {2, 1, 1}}, changed, 4);
  const std::vector<double> other = fit({{2, 1, 1, 1, 4}, {}}, changed, 5);
  ASSERT_EQ(one.size(), 5u);
  ASSERT_EQ(other.size(), 5u);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], 2e-7 * one[i]) << i;
}

TEST(StageSpeeds, TrainLikeOneRankAndLoadCheckpointsOfOtherCuts) {
  const ScratchDirectory straight, changed;
  const std::vector<double> one = fit({{1, 1, 1, 1, 8}, {}}, straight, 5);
  fit({{1, 2, 1, 1, 2}, {}, {3, 1}}, changed, 2);
  fit({{2, 2, 1, 1, 1, true}, {3, 1}, {1, 3}}, changed, 3);
  fit({{1, 2, 1, 2, 2}, {}}, changed, 4);
  const std::vector<double> other = fit({{1, 3, 1, 1, 1}, {}, {1, 0.1, 0.1}}, changed, 5);
  ASSERT_EQ(one.size(), 5u);
  ASSERT_EQ(other.size(), 5u);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], 2e-7 * one[i]) << i;
}

LayoutChecked check(const DataShares& shares, bool describes) {
  const Shared shared{{3, 1, 1, 1, 1}, shares};
  return checked_layout(shared.layout, options_with(shared), shared_model(1), describes);
}

TEST(DataShares, ArePlannedWithoutRanksForTheLargestOne) {
  for (const bool describes : {false, true}) {
    const Index most = check({2, 1, 1}, describes).rank_bytes;
    EXPECT_EQ(check({1, 2, 1}, describes).rank_bytes, most);
    EXPECT_EQ(check({1, 1, 2}, describes).rank_bytes, most);
    EXPECT_GT(most, check({}, describes).rank_bytes);
  }
  EXPECT_THAT(check({1, 2, 1}, true).description, HasSubstr("; 2,4,2 micro-batches a step"));
}

}  // namespace
}  // namespace trireme
