// No layout takes less time or memory than its bounds say, so that the search may leave layouts
// out; and a search that leaves them out finds what one finds that plans all.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "runtime/layouts/search/search.h"
#include "tests/layouts/task.h"

namespace trireme::layouts {
namespace {

using Words = std::vector<std::string>;

std::vector<Layout> some_of(std::vector<Layout> all, std::size_t most) {
  std::mt19937 random(1);
  std::shuffle(all.begin(), all.end(), random);
  if (all.size() > most) all.resize(most);
  return all;
}

void expect_bounds(const Words& words, const GpuGroup& group, std::size_t most,
                   const LayoutPins& pins = {}) {
  const auto task = task_of(words);
  Estimator estimator(*task, group.profile, group.network);
  cost::LayoutPlanner whole(cost::transformer_models(task->model()), group.profile.device);
  const double flops = whole.flops_per_sample(task->options().compute());
  const std::vector<Layout> all = list_layouts(*task, {group.gpus(), group.per_node}, pins).legal;
  ASSERT_FALSE(all.empty());
  for (const Layout& layout : some_of(all, most)) {
    // One rank of each stage takes as long as all, and needs no more: what bounds it bounds all.
    const cost::Candidate candidate = task->candidate(layout);
    const cost::PlannedLayout planned = whole.plan(candidate, cost::LayoutPlanner::Ranks::one);
    const double seconds = cost::step_time(planned, group.profile, group.network).total;
    const Index bytes = cost::device_bytes(planned, group.profile);
    EXPECT_LE(cost::least_step_time(candidate, flops, group.profile), seconds) << describe(layout);
    const TrainingSpec& spec = candidate.spec;
    const Estimator::Least least = estimator.least(layout, spec, group.network);
    EXPECT_LE(least.seconds, seconds) << describe(layout);
    EXPECT_GT(least.seconds, 0) << describe(layout);
    EXPECT_LE(estimator.simulated(layout, spec, group.network), seconds) << describe(layout);
    EXPECT_LE(estimator.state_bytes(layout, spec), bytes) << describe(layout);
    EXPECT_LE(least.bytes, bytes) << describe(layout);
  }
}

const Words llama_70b = {
    "--model",           "llama-8b", "--num-layers",          "80", "--hidden-size", "8192",
    "--ffn-hidden-size", "28672",    "--num-attention-heads", "64", "--seq-length",  "4096"};

Words with_batch(Words words, const std::string& batch) {
  words.insert(words.end(), {"--global-batch-size", batch});
  return words;
}

TEST(Bounds, HoldOfSmallModels) {
  expect_bounds({"--model", "tiny-llama", "--num-layers", "8", "--global-batch-size", "64"},
                group_of("2x4xH100"), 40);
  expect_bounds({"--model", "tiny", "--num-layers", "6", "--global-batch-size", "24"},
                group_of("1x6xA100-80"), 30);
  expect_bounds({"--model", "gpt2-124m", "--global-batch-size", "96"}, group_of("3x8xH100"), 30);
}

TEST(Bounds, HoldWhereTheHostOrTheNetworkIsSlow) {
  GpuGroup group = group_of("4x4xH100");
  group.profile.op_seconds = 1e-3;
  expect_bounds({"--model", "tiny", "--num-layers", "6", "--global-batch-size", "48"}, group, 25);
  group.profile.queues = false;
  expect_bounds({"--model", "tiny", "--num-layers", "6", "--global-batch-size", "48"}, group, 25);
  group = group_of("16x4xA100-80");
  group.network.port.bytes_per_s = 1e9;
  group.profile.contention = 0.7;
  expect_bounds({"--model", "gpt2-124m", "--num-layers", "4", "--seq-length", "256",
                 "--global-batch-size", "128"},
                group, 25);
}

TEST(Bounds, HoldOf16384Ranks) {
  const GpuGroup group = group_of("2048x8xH100-80");
  expect_bounds({"--model", "llama-8b", "--global-batch-size", "16384"}, group, 10);
  expect_bounds(with_batch(llama_70b, "16384"), group, 40);
}

TEST(Bounds, HoldOfEachSchedule) {
  const GpuGroup group = group_of("8x8xH100-80");
  for (const char* schedule :
       {"schedule 1f1b", "schedule interleaved", "schedule zero-bubble", "schedule zero-bubble-v"})
    expect_bounds(with_batch(llama_70b, "96"), group, 6, parse_pins(schedule));
}

struct Best {
  double seconds;
  Layout layout;
};

/// All, in order of their exact times, for which one rank of each stage is planned.
std::vector<Best> all_by_time(const TrainingTask& task, const GpuGroup& group,
                              const LayoutPins& pins) {
  cost::LayoutPlanner planner(cost::transformer_models(task.model()), group.profile.device);
  std::vector<Best> all;
  for (const Layout& layout : list_layouts(task, {group.gpus(), group.per_node}, pins).legal) {
    const cost::PlannedLayout planned =
        planner.plan(task.candidate(layout), cost::LayoutPlanner::Ranks::one);
    all.push_back({cost::step_time(planned, group.profile, group.network).total, layout});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Best& a, const Best& b) { return a.seconds < b.seconds; });
  return all;
}

/// The fastest that fits, with all of its ranks, of each set of layouts that differ in details.
std::vector<Best> best_of_all(const TrainingTask& task, const GpuGroup& group, const SearchAim& aim,
                              Index limit) {
  Searcher searcher(task, group.profile.device);
  std::vector<Best> best;
  const auto without_details = [](Layout layout) {
    layout.sharded = layout.sequence_parallel = false;
    layout.head_chunks = 1;
    return layout;
  };
  for (const Best& each : all_by_time(task, group, aim.pins))
    if (std::ssize(best) < aim.best &&
        std::none_of(best.begin(), best.end(),
                     [&](const Best& other) {
                       return without_details(other.layout) == without_details(each.layout);
                     }) &&
        searcher.evaluate(each.layout, group).bytes <= limit)
      best.push_back(each);
  return best;
}

/// `share`: of the memory of the GPU that may be used.
void expect_best(const Words& words, const GpuGroup& group, const std::string& pins,
                 double margin) {
  const auto task = task_of(words);
  SearchAim aim;
  aim.margin = margin;
  if (!pins.empty()) aim.pins = parse_pins(pins);
  Searcher searcher(*task, group.profile.device);
  const SearchResult found = searcher.search(group, aim);
  const std::vector<Best> best = best_of_all(*task, group, aim, found.limit);
  ASSERT_FALSE(best.empty());
  ASSERT_EQ(found.best.size(), best.size());
  for (std::size_t i = 0; i < best.size(); ++i) {
    const Evaluated& each = found.evaluated[found.best[i]];
    EXPECT_EQ(describe(each.layout), describe(best[i].layout)) << i;
    EXPECT_DOUBLE_EQ(each.time.total, best[i].seconds) << i;
  }
  EXPECT_LT(found.evaluated.size(), found.considered.size()) << "none was left out";
}

TEST(Search, WithBoundsFindsWhatAnExhaustiveSearchFinds) {
  expect_best({"--model", "tiny", "--global-batch-size", "8"}, group_of("1x4xH100"),
              "recompute none", 0.02);
  expect_best({"--model", "tiny-llama", "--num-layers", "8", "--global-batch-size", "32"},
              group_of("2x2xA100-80"), "mb 1 chunks 1", 0.02);
  expect_best({"--model", "gpt2-124m", "--num-layers", "4", "--seq-length", "256",
               "--global-batch-size", "64"},
              group_of("8x1xRTX-4090"), "v 1 chunks 1", 0.02);
  GpuGroup slow = group_of("2x4xH100");
  slow.network.port.bytes_per_s = 1e9;
  expect_best({"--model", "gpt2-355m", "--global-batch-size", "16"}, slow, "mb 1 v 1 chunks 1",
              0.02);
}

TEST(Search, WithBoundsFindsWhatFitsLittleMemory) {
  GpuGroup group = group_of("2x4xH100");
  group.profile.context_bytes = group.profile.communicator_bytes = 0;
  group.profile.memory = Index{700} << 20;
  expect_best({"--model", "gpt2-124m", "--num-layers", "4", "--seq-length", "256",
               "--global-batch-size", "32"},
              group, "chunks 1 mb 1", 0);
  expect_best(with_batch(llama_70b, "64"), group_of("8x8xH100-80"),
              "tp 8 mb 1 zero 1 sp 1 chunks 8 full", 0.02);
}

}  // namespace
}  // namespace trireme::layouts
