// Plans on GPUs of several types, against all that could be chosen in small cases.
#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/core/at.h"
#include "runtime/layouts/unequal/families.h"
#include "runtime/layouts/unequal/unequal_answer.h"
#include "runtime/layouts/unequal/unequal_search.h"
#include "tests/layouts/task.h"

namespace trireme::layouts {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Cluster cluster_of(const std::string& groups) {
  return parse_cluster("{\"groups\": [" + groups + "]}", "FILE");
}
Cluster two_types() {
  return cluster_of(R"({"gpu": "H100", "nodes": 1, "per_node": 2},
                       {"gpu": "4090", "nodes": 1, "per_node": 2})");
}
Cluster three_types() {
  return cluster_of(R"({"gpu": "H100", "nodes": 1, "per_node": 8},
                       {"gpu": "A100-80", "nodes": 1, "per_node": 8},
                       {"gpu": "4090", "nodes": 1, "per_node": 8})");
}

std::unique_ptr<TrainingTask> eight_layers(const std::string& batch) {
  return task_of({"--model", "tiny-llama", "--num-layers", "8", "--global-batch-size", batch});
}
/// Work enough that a step is not the host's time alone.
std::unique_ptr<TrainingTask> wide_task(const std::string& batch) {
  return task_of({"--model", "gpt2-124m", "--num-layers", "4", "--global-batch-size", batch});
}

/// Calls f with all numbers of at least 1 that add up to `sum`.
void each_composition(std::size_t parts, int sum, const std::function<void(std::vector<int>)>& f,
                      std::vector<int> before = {}) {
  if (before.size() + 1 == parts) {
    before.push_back(sum);
    return f(before);
  }
  for (int first = 1; first <= sum - static_cast<int>(parts - before.size() - 1); ++first) {
    std::vector<int> more = before;
    more.push_back(first);
    each_composition(parts, sum - first, f, more);
  }
}

/// By the parameters that a stage holds.
std::vector<int> planned_blocks(const cost::PlannedLayout& planned) {
  std::vector<int> counts;
  for (const auto& stage : planned.stages) {
    std::set<std::string> blocks;
    for (const FlatParameter& parameter : stage->flat.parameters()) {
      const std::string name = stage->train.model().graph->parameters()[at(parameter.id)].name();
      if (name.starts_with("block.")) blocks.insert(name.substr(0, name.find('.', 6)));
    }
    counts.push_back(static_cast<int>(blocks.size()));
  }
  return counts;
}

TEST(ModelCut, HasSpeedsThatMakeTheRuntimeCutAsWanted) {
  const auto task = eight_layers("8");
  const Cluster cluster = two_types();
  const DeviceTraits& device = cluster.groups.front().profile.device;
  ModelCut cut(*task, device);
  cost::LayoutPlanner planner(cost::transformer_models(task->model()), device);
  Layout layout;
  layout.pipeline = 3;
  int without_speeds = 0;
  each_composition(3, 8, [&](const std::vector<int>& wanted) {
    const std::vector<double> speeds = cut.speeds_for(wanted);
    without_speeds += speeds.empty() ? 1 : 0;
    EXPECT_EQ(planned_blocks(planner.plan(task->candidate(layout, {{}, speeds}))), wanted);
  });
  EXPECT_EQ(without_speeds, 1);  // the runtime's own
}

TEST(Families, CutAPipelineOfTwoTypesAsTheBestOfAllCuts) {
  const auto task = eight_layers("8");
  const Cluster cluster = two_types();
  std::vector<GpuType> types = gpu_types(*task, cluster, 0);
  Layout layout;
  layout.pipeline = 4;
  for (const std::vector<int>& order : {std::vector<int>{0, 0, 1, 1}, {1, 1, 0, 0}, {1, 0, 1, 0}})
    for (const std::vector<Index>& limits :
         {std::vector<Index>{}, {1, 8, 8, 8}, {8, 2, 8, 1}, {1, 1, 1, 4}}) {
      double least = std::numeric_limits<double>::infinity();
      each_composition(4, 8, [&](const std::vector<int>& blocks) {
        for (std::size_t s = 0; s < limits.size(); ++s)
          if (blocks[s] > limits[s]) return;
        const PipelineKind kind{order, blocks, 1, {}};
        if (const auto worker = worker_of(types, kind, layout, 1))
          least = std::min(least, worker->each);
      });
      const auto kind = cut_pipeline(types, order, layout, 8, limits);
      ASSERT_EQ(kind.has_value(), least < std::numeric_limits<double>::infinity());
      if (kind) {
        EXPECT_EQ(worker_of(types, *kind, layout, 1)->each, least);
      }
    }
}

TEST(Families, GiveNoStageMoreBlocksThanItsMemoryHolds) {
  const auto task = wide_task("64");
  Cluster cluster = two_types();
  Layout layout;
  layout.micro_batch = 8;
  for (GpuGroup& group : cluster.groups)
    group.profile.context_bytes = group.profile.communicator_bytes = 0;
  cluster.groups[1].profile.memory = Index{1600} << 20;
  std::vector<GpuType> types = gpu_types(*task, cluster, 0);
  EXPECT_EQ(types[0].stage(layout, {0, 2}).most, 4);
  const Index small = types[1].stage(layout, {0, 2}).most;
  EXPECT_LT(small, 4);
  // The first stage of more holds more micro-batches in flight.
  EXPECT_LT(types[1].stage(layout, {0, 4}).most, types[1].stage(layout, {2, 4}).most);
}

TEST(UnequalSearch, CutsAPipelineAsTheBestOfAllCutsThatFit) {
  const auto task = wide_task("64");
  Cluster cluster = cluster_of(R"({"gpu": "H100", "nodes": 1, "per_node": 1},
                                  {"gpu": "4090", "nodes": 1, "per_node": 1})");
  for (GpuGroup& group : cluster.groups)
    group.profile.context_bytes = group.profile.communicator_bytes = 0;
  // The fast GPU has too little memory for the share that its speed asks for.
  cluster.groups[0].profile.memory = Index{2200} << 20;
  SearchAim aim;
  aim.margin = 0;
  aim.pins = parse_pins("tp 1 pp 2 dp 1 mb 8 chunks 1 none");
  const UnequalResult found = search_unequal(*task, cluster, aim);
  ASSERT_GE(found.launched, 0);
  EXPECT_GT(found.refused, 0);
  const Choice& best = found.best[at(found.launched)];
  ASSERT_TRUE(best.plan);
  std::vector<GpuType> types = gpu_types(*task, cluster, 0);
  ModelCut cut(*task, cluster.groups.front().profile.device);
  ExactPlanner planner(*task, types, cut);
  double least = std::numeric_limits<double>::infinity();
  int too_large = 0;
  UnequalPlan plan = best.plan->plan;
  for (const std::vector<int>& order : {std::vector<int>{0, 1}, {1, 0}})
    each_composition(2, 4, [&](const std::vector<int>& blocks) {
      plan.kinds = {{order, blocks, 1, {8, 0}}};
      const ExactPlan exact = planner.plan(plan);
      too_large += exact.fits() ? 0 : 1;
      if (exact.fits()) least = std::min(least, exact.seconds);
    });
  EXPECT_GT(too_large, 0);
  EXPECT_EQ(best.seconds, least);
}

TEST(PackMixes, FindsTheHighestRateOfAllNumbers) {
  const std::vector<Mix> mixes = {{{1, 0}, 3}, {{1, 1}, 4.5}, {{0, 2}, 2.5}, {{2, 1}, 7}};
  const std::vector<int> available = {5, 4};
  double highest = 0;
  for (int a = 0; a <= 5; ++a)
    for (int b = 0; b <= 4; ++b)
      for (int c = 0; c <= 2; ++c)
        for (int d = 0; d <= 2; ++d)
          if (a + b + 2 * d <= 5 && b + 2 * c + d <= 4)
            highest = std::max(highest, 3 * a + 4.5 * b + 2.5 * c + 7 * d);
  const auto found = pack_mixes(mixes, available, {3.5, 2}, 2);
  ASSERT_EQ(found.size(), 2u);
  const auto rate = [&](const std::vector<int>& counts) {
    double sum = 0;
    for (std::size_t m = 0; m < mixes.size(); ++m) sum += counts[m] * mixes[m].rate;
    return sum;
  };
  EXPECT_EQ(rate(found[0]), highest);
  EXPECT_LE(rate(found[1]), highest);
}

TEST(ExactPlan, HasTheBytesOfTheRanksThatTheRuntimePlans) {
  const auto task = eight_layers("32");
  const Cluster cluster = two_types();
  std::vector<GpuType> types = gpu_types(*task, cluster, 0);
  ModelCut cut(*task, cluster.groups.front().profile.device);
  ExactPlanner planner(*task, types, cut);
  UnequalPlan plan;
  plan.layout.pipeline = plan.layout.data = 2;
  plan.layout.sharded = true;
  plan.kinds = {{{0, 0}, cut.equal(2), 1, {29, 0}}, {{1, 1}, cut.equal(2), 1, {3, 0}}};
  const ExactPlan exact = planner.plan(plan);
  EXPECT_THAT(exact.parts.shares, ElementsAre(29, 3));
  for (std::size_t k = 0; k < 2; ++k) {
    const cost::Profile& profile = cluster.groups[k].profile;
    cost::LayoutPlanner alone(cost::transformer_models(task->model()), profile.device);
    const cost::PlannedLayout planned = alone.plan(task->candidate(plan.layout, exact.parts));
    for (const cost::PlannedRank& rank : planned.ranks) {
      if (plan.layout.data == 2 && (rank.rank % 2) != static_cast<int>(k)) continue;
      EXPECT_EQ(exact.kinds[k].bytes[at(rank.stage)],
                rank.need.device() + profile.context_bytes +
                    planned.communicators() * profile.communicator_bytes);
    }
  }
}

/// Of all shares of the micro-batches over two data ranks of each type, each planned exactly.
double least_of_all_shares(const TrainingTask& task, const Cluster& cluster, UnequalPlan plan) {
  std::vector<GpuType> types = gpu_types(task, cluster, 0);
  ModelCut cut(task, cluster.groups.front().profile.device);
  ExactPlanner planner(task, types, cut);
  double least = std::numeric_limits<double>::infinity();
  const Index all = task.options().global_batch_size / plan.layout.micro_batch;
  std::set<std::pair<int, int>> seen;
  each_composition(4, static_cast<int>(all), [&](const std::vector<int>& counts) {
    // A step ends with the rank of each type that has most.
    const std::pair<int, int> most = {std::max(counts[0], counts[1]),
                                      std::max(counts[2], counts[3])};
    if (!seen.insert(most).second) return;
    plan.kinds = {{{0}, cut.equal(1), 2, {most.first, 0}},
                  {{1}, cut.equal(1), 2, {most.second, 0}}};
    least = std::min(least, planner.plan(plan).seconds);
  });
  return least;
}

TEST(UnequalSearch, SharesMicroBatchesAsTheBestOfAllShares) {
  const auto task = wide_task("24");
  const Cluster cluster = two_types();
  SearchAim aim;
  aim.margin = 0;
  aim.pins = parse_pins("tp 1 pp 1 mb 2 chunks 1 none dp 4");
  const UnequalResult found = search_unequal(*task, cluster, aim);
  ASSERT_GE(found.launched, 0);
  const Choice& best = found.best[at(found.launched)];
  ASSERT_TRUE(best.plan);
  EXPECT_EQ(best.plan->plan.family, Family::replicas);
  const double least = least_of_all_shares(*task, cluster, best.plan->plan);
  EXPECT_NEAR(best.seconds / least, 1, 1e-9);
  EXPECT_GT(found.equal_shares, 1.2 * best.seconds);
}

TEST(UnequalSearch, OfTheKnownExampleEqualSharesAreAboutTwiceAsSlow) {
  // 512 micro-batches, so large that the exchange of gradients counts little.
  const auto task = wide_task("4096");
  SearchAim aim;
  aim.pins = parse_pins("tp 1 pp 1 mb 8 chunks 1 none dp 24");
  const UnequalResult found = search_unequal(*task, three_types(), aim);
  ASSERT_GE(found.launched, 0);
  const Choice& best = found.best[at(found.launched)];
  ASSERT_TRUE(best.plan);
  EXPECT_EQ(best.groups, 7u);
  Index sum = 0;
  for (const PipelineKind& kind : best.plan->plan.kinds)
    sum += kind.count * kind.share.each + kind.share.more;
  EXPECT_EQ(sum, 512);
  EXPECT_GT(found.equal_shares, 1.8 * best.seconds);
  EXPECT_LT(found.equal_shares, 2.6 * best.seconds);
}

TEST(UnequalSearch, MarksWhatCannotBeLaunchedAndUsesNoMoreThanThereIs) {
  const auto task = eight_layers("64");
  SearchAim aim;
  aim.best = 60;
  aim.pins = parse_pins("tp 1 mb 1 chunks 1 none");
  const Cluster cluster = two_types();
  const UnequalResult found = search_unequal(*task, cluster, aim);
  std::set<Family> families;
  int marked = 0;
  for (const Choice& choice : found.best) {
    if (!choice.plan) continue;
    const UnequalPlan& plan = choice.plan->plan;
    families.insert(plan.family);
    for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
      const int gpus = plan.gpus(static_cast<int>(g));
      EXPECT_EQ(gpus % plan.layout.tensor, 0);
      EXPECT_LE(gpus, cluster.groups[g].gpus());
      if (gpus > 0) {
        EXPECT_EQ(cluster.groups[g].per_node % plan.layout.tensor, 0);
      }
    }
    bool alike = true;
    for (const PipelineKind& kind : plan.kinds)
      alike = alike && kind.blocks == plan.kinds.front().blocks;
    EXPECT_EQ(choice.not_launched.empty(), alike);
    marked += choice.not_launched.empty() ? 0 : 1;
  }
  EXPECT_EQ(families.size(), 3u);
  EXPECT_GT(marked, 0);
}

TEST(UnequalSearch, LeavesOutATypeWhoseNodesAreTooSmallForATensorGroup) {
  const auto task = tiny_task("64");  // 4 heads
  const Cluster cluster = cluster_of(R"({"gpu": "H100", "nodes": 1, "per_node": 4},
                                        {"gpu": "4090", "nodes": 2, "per_node": 2})");
  SearchAim aim;
  for (const auto& [pin, groups] : {std::pair("tp 2", 3U), std::pair("tp 4", 0U)}) {
    aim.pins = parse_pins(pin);
    unsigned used = 0;
    for (const Choice& choice : search_unequal(*task, cluster, aim).best)
      if (choice.plan) used |= choice.groups;  // a group alone may cross nodes where it is pinned
    EXPECT_EQ(used, groups) << pin;
  }
}

TEST(WhyNotLaunched, SaysWhatTheRuntimeLacks) {
  UnequalPlan plan;
  plan.kinds = {{{0, 0}, {4, 4}, 1, {}}, {{1, 1}, {4, 4}, 1, {}}};
  EXPECT_EQ(why_not_launched(plan), "");
  plan.kinds[1].blocks = {5, 3};
  EXPECT_EQ(
      why_not_launched(plan),
      "pipelines are cut differently (4+4 and 5+3 blocks), and --stage-speeds cuts all alike");
  plan.kinds[1] = {{1}, {8}, 1, {}};
  EXPECT_EQ(why_not_launched(plan),
            "pipelines have 2 and 1 stages, and a mesh has one number of stages");
}

TEST(UnequalPlan, SharesHaveNoCommonFactorAndAreLeftOutWhereEqual) {
  UnequalPlan plan;
  plan.kinds = {{{0}, {8}, 2, {6, 0}}, {{1}, {8}, 1, {2, 0}}};
  EXPECT_THAT(plan.shares(), ElementsAre(3, 3, 1));
  plan.kinds[0].share = {6, 1};
  EXPECT_THAT(plan.shares(), ElementsAre(7, 6, 2));
  plan.kinds[0].share = {2, 0};
  EXPECT_THAT(plan.shares(), ElementsAre());
}

/// The group of the node that each rank is on.
std::vector<int> groups_of_ranks(const std::vector<HostRun>& runs) {
  std::vector<int> groups;
  for (const HostRun& run : runs) groups.insert(groups.end(), at(run.ranks), run.group);
  return groups;
}

TEST(Hosts, PutEachRankOnANodeOfItsTypeAndFillNodes) {
  const Cluster cluster = cluster_of(R"({"gpu": "H100", "nodes": 2, "per_node": 4},
                                        {"gpu": "4090", "nodes": 1, "per_node": 8})");
  UnequalPlan plan;
  plan.layout.tensor = 2;
  plan.layout.pipeline = 2;
  plan.layout.data = 4;
  plan.kinds = {{{0, 0}, {4, 4}, 2, {}}, {{1, 1}, {4, 4}, 2, {}}};
  const std::vector<HostRun> runs = host_runs(cluster, plan);
  const MeshShape mesh(4, 2, 2);
  const std::vector<int> groups = groups_of_ranks(runs);
  ASSERT_EQ(groups.size(), 16u);
  for (int rank = 0; rank < 16; ++rank)
    EXPECT_EQ(groups[at(rank)], mesh.coordinate(rank, Axis::data) < 2 ? 0 : 1) << rank;
  std::vector<std::vector<int>> used = {{0, 0}, {0}};
  for (const HostRun& run : runs) used[at(run.group)][at(run.node)] += run.ranks;
  EXPECT_THAT(used, ElementsAre(ElementsAre(4, 4), ElementsAre(8)));
  // Node 1 of the 4090 has ranks of both stages, with others between them.
  EXPECT_TRUE(needs_line_per_rank(runs));
  EXPECT_THAT(describe_hosts(cluster, runs),
              HasSubstr("a line for each rank with the name of its node: 4 of node 1 of H100, 4 of "
                        "node 1 of 4090, 4 of node 2 of H100, 4 of node 1 of 4090"));
}

TEST(Hosts, OfAPipelineOverTypesAreOneLineANode) {
  const Cluster cluster = cluster_of(R"({"gpu": "H100", "nodes": 2, "per_node": 4},
                                        {"gpu": "4090", "nodes": 1, "per_node": 8})");
  UnequalPlan plan;
  plan.layout.tensor = 4;
  plan.layout.data = 2;
  plan.kinds = {{{0, 1}, {6, 2}, 2, {}}};
  const std::vector<HostRun> runs = host_runs(cluster, plan);
  EXPECT_FALSE(needs_line_per_rank(runs));
  EXPECT_EQ(describe_hosts(cluster, runs),
            "a line for each node: 2 of H100 with slots=4, then 1 of 4090 with slots=8");
}

}  // namespace
}  // namespace trireme::layouts
