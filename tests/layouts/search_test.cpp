// The search finds the fastest layout that fits, with few exact plans, and says why others are not.
#include "runtime/layouts/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/layouts/task.h"

namespace trireme::layouts {
namespace {

using testing::HasSubstr;

TEST(Search, PlansFewLayoutsExactly) {
  const auto task = tiny_task("64");
  const GpuGroup group = group_of("8x8xH100");
  Searcher searcher(*task, group.profile.device);
  const SearchResult found = searcher.search(group, {});
  EXPECT_EQ(found.best.size(), 4u);
  EXPECT_GT(found.considered.size(), 300u);
  EXPECT_LE(found.evaluated.size(), found.considered.size() / 10);
  for (std::size_t i = 1; i < found.best.size(); ++i)
    EXPECT_LE(found.evaluated[found.best[i - 1]].time.total,
              found.evaluated[found.best[i]].time.total);
  for (const Verdict verdict : {Verdict::fits, Verdict::state, Verdict::estimate, Verdict::memory,
                                Verdict::impossible, Verdict::slower})
    EXPECT_STRNE(name(verdict), "");
}

TEST(Search, RefusesByTheStateAloneAndByActivations) {
  const auto task = task_of({"--model", "gpt2-124m", "--num-layers", "4", "--seq-length", "256",
                             "--global-batch-size", "32"});
  GpuGroup group = group_of("1x4xH100");
  group.profile.context_bytes = group.profile.communicator_bytes = 0;
  Searcher searcher(*task, group.profile.device);
  SearchAim aim;
  aim.margin = 0;
  group.profile.memory = Index{1} << 20;
  const SearchResult nothing = searcher.search(group, aim);
  EXPECT_TRUE(nothing.best.empty());
  EXPECT_EQ(nothing.count(Verdict::state), static_cast<int>(nothing.considered.size()));
  EXPECT_TRUE(nothing.evaluated.empty());
  group.profile.memory = Index{600} << 20;
  const SearchResult some = searcher.search(group, aim);
  ASSERT_FALSE(some.best.empty());
  EXPECT_GT(some.count(Verdict::state), 0);
  EXPECT_GT(some.count(Verdict::estimate), 0);
  for (const std::size_t best : some.best) EXPECT_LE(some.evaluated[best].bytes, some.limit);
}

// 251 tokens are dealt to two tensor ranks: the first one, whose plan says how long a step takes,
// needs a little less than the last one.
TEST(Search, RefusesALayoutOfWhichAnotherRankDoesNotFit) {
  const auto task = task_of(
      {"--model", "tiny", "--vocab-size", "251", "--num-layers", "3", "--global-batch-size", "8"});
  GpuGroup group = group_of("1x8xH100");
  SearchAim aim;
  aim.margin = 0;
  aim.pins = parse_pins("tp 2 pp 1 mb 1 zero 1 sp 1 chunks 1 recompute none");
  const SearchResult fits = Searcher(*task, group.profile.device).search(group, aim);
  ASSERT_EQ(fits.considered.size(), 1u);
  ASSERT_EQ(fits.best.size(), 1u);
  const Index most = fits.evaluated.front().bytes;
  cost::LayoutPlanner planner(cost::transformer_models(task->model()), group.profile.device);
  const cost::Candidate candidate = task->candidate(fits.considered.front().layout);
  ASSERT_LT(
      cost::device_bytes(planner.plan(candidate, cost::LayoutPlanner::Ranks::one), group.profile),
      most);

  group.profile.memory = most - 1;
  const SearchResult refused = Searcher(*task, group.profile.device).search(group, aim);
  EXPECT_TRUE(refused.best.empty());
  EXPECT_EQ(refused.considered.front().verdict, Verdict::memory);
  EXPECT_EQ(refused.evaluated.front().bytes, most);
  aim.all_ranks = false;  // as for levers
  EXPECT_EQ(Searcher(*task, group.profile.device).search(group, aim).best.size(), 1u);
}

TEST(Search, LeavesTheMarginFree) {
  const auto task = tiny_task("32");
  const GpuGroup group = group_of("1x8xH100");
  Searcher searcher(*task, group.profile.device);
  SearchAim aim;
  aim.margin = 0.5;
  EXPECT_EQ(searcher.search(group, aim).limit, group.profile.memory / 2);
}

// What a searcher keeps of one group may hold for another one or not.
TEST(Search, FindsAfterOtherGroupsWhatAFreshSearcherFinds) {
  const auto task = tiny_task("32");
  const GpuGroup group = group_of("2x4xH100");
  GpuGroup faster = group, larger = group;
  faster.network.port.bytes_per_s *= 2;
  larger.nodes *= 2;
  Searcher searcher(*task, group.profile.device);
  for (const GpuGroup& each : {group, faster, larger, group}) {
    const SearchResult found = searcher.search(each, {}),
                       fresh = Searcher(*task, group.profile.device).search(each, {});
    ASSERT_EQ(found.considered.size(), fresh.considered.size());
    for (std::size_t i = 0; i < found.considered.size(); ++i) {
      const Considered &one = found.considered[i], &other = fresh.considered[i];
      EXPECT_EQ(one.least_seconds, other.least_seconds) << describe(one.layout);
      EXPECT_EQ(one.least_bytes, other.least_bytes) << describe(one.layout);
    }
    ASSERT_EQ(found.best.size(), fresh.best.size());
    for (std::size_t i = 0; i < found.best.size(); ++i)
      EXPECT_EQ(found.evaluated[found.best[i]].time.total,
                fresh.evaluated[fresh.best[i]].time.total);
  }
}

TEST(Search, ExplainsALayoutOfItsWordsAndWhyThereIsNone) {
  const auto task = tiny_task("32");
  const GpuGroup group = group_of("1x8xH100");
  Searcher searcher(*task, group.profile.device);
  std::string why;
  const auto found = searcher.explain(group, parse_pins("tp 2 pp 2 full"), Index{1} << 40, why);
  ASSERT_TRUE(found);
  EXPECT_TRUE(parse_pins("tp 2 pp 2 full").match(found->layout));
  EXPECT_FALSE(searcher.explain(group, parse_pins("tp 8"), Index{1} << 40, why));
  EXPECT_THAT(why, HasSubstr("--num-attention-heads 4"));
  EXPECT_FALSE(searcher.explain(group, parse_pins("tp 2 mb 3"), Index{1} << 40, why));
  EXPECT_NE(why, "");
}

}  // namespace
}  // namespace trireme::layouts
