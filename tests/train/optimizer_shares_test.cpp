// --optimizer-shares on ranks as threads: the training of equal slices, bit for bit, and
// checkpoints that any other cut resumes from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/unequal_ranks.h"

namespace trireme {
namespace {

using testing::HasSubstr;

struct Cut {
  Layout layout;
  DataShares shares;
  friend void PrintTo(const Cut& cut, std::ostream* out) {
    PrintTo(cut.layout, out);
    *out << " optimizer shares " << describe(cut.shares);
  }
};

const Layout two_slices{.data = 2, .micro_batch = 2, .zero = true},
    three_slices{.data = 3, .pipeline = 2, .micro_batch = 1, .zero = true, .bf16 = true},
    split_slices{.data = 2, .tensor = 2, .micro_batch = 1, .zero = true, .bf16 = true};

Options cut_options(const Cut& cut) {
  Options options = options_for(cut.layout);
  options.optimizer_shares = cut.shares;
  options.global_batch_size = 12;
  options.check_replicas = 1;  // a difference in bits stops the job
  options.verify_step = 2;
  options.optimizer.clip_norm = 0;  // the norm is a sum over slices, in fp64
  return options;
}

std::vector<double> fit_cut(const Cut& cut, const ScratchDirectory& folder, Index last,
                            const ThreadTransport& transport = {}) {
  const Index batch = cut.layout.micro_batch;
  return losses_of_fit(folder, cut.layout, cut_options(cut), last,
                       Model([batch](Graph& g) { return mlp(g, batch); }), transport);
}

std::vector<double> straight_cut(const Cut& cut, const ThreadTransport& transport = {}) {
  const ScratchDirectory folder;
  return fit_cut(cut, folder, 5, transport);
}

TEST(OptimizerShares, TrainWithTheBitsOfEqualSlices) {
  for (const auto& [layout, cuts] :
       {std::pair(two_slices, std::vector<DataShares>{{3, 1}, {0, 1}}),
        std::pair(three_slices, std::vector<DataShares>{{2, 1, 1}, {1, 5, 0}}),
        std::pair(split_slices, std::vector<DataShares>{{1, 2}})}) {
    const std::vector<double> equal = straight_cut({layout, {}});
    ASSERT_EQ(equal.size(), 5u);
    for (const DataShares& shares : cuts) {
      SCOPED_TRACE(testing::PrintToString(Cut{layout, shares}));
      EXPECT_EQ(straight_cut({layout, shares}), equal);
    }
  }
}

TEST(OptimizerShares, TrainWithTheBitsOfEqualSlicesOnNodesWhoseOperationsAreDelayed) {
  const ThreadTransport nodes{
      .hostile_seed = 3, .ranks_per_node = 4, .reach = ThreadReachable::allocated};
  EXPECT_EQ(straight_cut({three_slices, {2, 1, 1}}, nodes),
            straight_cut({three_slices, {}}, nodes));
}

TEST(OptimizerShares, MayChangeWhereAJobResumes) {
  for (const Layout& layout : {two_slices, split_slices}) {
    const ScratchDirectory folder;
    fit_cut({layout, {3, 1}}, folder, 1);
    fit_cut({layout, {}}, folder, 2);
    fit_cut({layout, {0, 1}}, folder, 3);
    fit_cut({layout, {1, 0}}, folder, 4);
    EXPECT_EQ(fit_cut({layout, {1, 2}}, folder, 5), straight_cut({layout, {}}));
  }
}

LayoutChecked check_cut(const DataShares& shares, bool describes) {
  return checked_layout(three_slices, cut_options({three_slices, shares}),
                        Model([](Graph& g) { return mlp(g, three_slices.micro_batch); }),
                        describes);
}

TEST(OptimizerShares, ArePlannedForTheRankThatHasMost) {
  for (const bool describes : {false, true}) {
    const Index most = check_cut({3, 1, 1}, describes).rank_bytes;
    EXPECT_EQ(check_cut({1, 3, 1}, describes).rank_bytes, most);
    EXPECT_EQ(check_cut({1, 1, 3}, describes).rank_bytes, most);
    EXPECT_GT(most, check_cut({}, describes).rank_bytes);
  }
  EXPECT_THAT(check_cut({1, 3, 1}, true).description, HasSubstr(", optimizer shares 1,3,1;"));
}

}  // namespace
}  // namespace trireme
