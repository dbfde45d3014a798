// The search finds the fastest layout that fits, with few exact plans, and says why others are not.
#include "runtime/planner/search/search.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/planner/task.h"

namespace trireme::planner {
namespace {

using testing::HasSubstr;

/// The fastest time of all layouts that fit, each planned exactly.
double fastest_of_all(const TrainingTask& task, const GpuGroup& group, Index limit,
                      const LayoutPins& pins) {
  Searcher searcher(task, group.profile.device);
  double fastest = std::numeric_limits<double>::infinity();
  for (const Layout& layout : list_layouts(task, {group.gpus(), group.per_node}, pins).legal) {
    const Evaluated made = searcher.evaluate(layout, group);
    if (made.bytes <= limit) fastest = std::min(fastest, made.time.total);
  }
  return fastest;
}

TEST(Search, FindsTheFastestOfAllLayoutsThatFit) {
  const auto task = tiny_task("8");
  GpuGroup group = group_of("1x4xH100");
  const LayoutPins pins = parse_pins("chunks=1");
  for (const Index memory : {Index{1} << 40, Index{0}}) {
    // Once with memory for all, once with so little that few fit.
    SearchAim aim;
    aim.pins = pins;
    if (memory == 0) {
      Searcher searcher(*task, group.profile.device);
      aim.margin = 0;
      SearchAim all = aim;
      all.best = 1000;
      group.profile.memory = Index{1} << 40;
      const SearchResult found = searcher.search(group, all);
      Index least = Index{1} << 40;
      for (const Evaluated& each : found.evaluated) least = std::min(least, each.bytes);
      group.profile.memory = least + (Index{1} << 20);
    } else {
      group.profile.memory = memory;
    }
    Searcher searcher(*task, group.profile.device);
    const SearchResult found = searcher.search(group, aim);
    ASSERT_FALSE(found.best.empty());
    const double best = found.evaluated[found.best.front()].time.total;
    const double fastest = fastest_of_all(*task, group, found.limit, pins);
    // Of layouts that differ in details only one is planned, the first by its estimate.
    EXPECT_LE(best, fastest * 1.02);
  }
}

TEST(Search, EstimatesNoLayoutMuchSlowerOrLargerThanItsPlan) {
  const auto task =
      task_of({"--model", "tiny-llama", "--num-layers", "8", "--global-batch-size", "64"});
  const GpuGroup group = group_of("2x4xH100");
  Searcher searcher(*task, group.profile.device);
  Estimator estimator(*task, group.profile, group.network);
  std::vector<Layout> all = list_layouts(*task, {8, 4}, {}).legal;
  std::mt19937 random(1);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(60);
  for (const Layout& layout : all) {
    const Evaluated made = searcher.evaluate(layout, group);
    EXPECT_LE(estimator.seconds(layout), made.time.total) << describe(layout);
    EXPECT_LE(estimator.state_bytes(layout), made.bytes) << describe(layout);
    EXPECT_LE(estimator.bytes(layout), made.bytes) << describe(layout);
  }
}

TEST(Search, EstimatesTheDataTrafficThatNoStepCanHide) {
  const auto task = task_of({"--model", "gpt2-124m", "--num-layers", "4", "--seq-length", "256",
                             "--global-batch-size", "1024"});
  const GpuGroup group = group_of("64x8xH100");
  Searcher searcher(*task, group.profile.device);
  Estimator estimator(*task, group.profile, group.network);
  const LayoutPins pins = parse_pins("tp 1 pp 1 chunks 1 none");
  const std::vector<Layout> all = list_layouts(*task, {group.gpus(), group.per_node}, pins).legal;
  ASSERT_FALSE(all.empty());
  for (const Layout& layout : all) {
    const double data = estimator.data_seconds(layout, group.network);
    EXPECT_GT(data, 0) << describe(layout);
    EXPECT_LE(estimator.seconds(layout) + data, searcher.evaluate(layout, group).time.total)
        << describe(layout);
  }
}

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

TEST(Search, LeavesTheMarginFree) {
  const auto task = tiny_task("32");
  const GpuGroup group = group_of("1x8xH100");
  Searcher searcher(*task, group.profile.device);
  SearchAim aim;
  aim.margin = 0.5;
  EXPECT_EQ(searcher.search(group, aim).limit, group.profile.memory / 2);
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
}  // namespace trireme::planner
