// Slices of the optimizer on GPUs of several types: by memory, and by the speed of their updates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/core/at.h"
#include "runtime/layouts/unequal/unequal_answer.h"
#include "tests/layouts/task.h"

namespace trireme::layouts {
namespace {

Cluster one_gpu_each() {
  return parse_cluster(R"({"groups": [{"gpu": "H100", "nodes": 1, "per_node": 1},
                                      {"gpu": "4090", "nodes": 1, "per_node": 1}]})",
                       "FILE");
}

std::unique_ptr<TrainingTask> layers_of_gpt2(const std::string& batch) {
  return task_of({"--model", "gpt2-124m", "--num-layers", "4", "--global-batch-size", batch});
}

/// What a rank of the layout needs of its GPU.
Index bytes_on(const TrainingTask& task, const cost::Profile& profile,
               const cost::Candidate& candidate, std::size_t rank) {
  const cost::PlannedLayout planned =
      cost::LayoutPlanner(cost::transformer_models(task.model()), profile.device).plan(candidate);
  return planned.ranks.at(rank).need.device() + profile.context_bytes +
         planned.communicators() * profile.communicator_bytes;
}

/// The second has memory for a tenth of the optimizer.
Cluster with_little_memory(const TrainingTask& task, const UnequalPlan& plan) {
  Cluster cluster = one_gpu_each();
  cost::Profile& small = cluster.groups[1].profile;
  constexpr Index state = 12;  // bytes of a parameter, in bf16
  cost::Candidate candidate = task.candidate(plan.layout);
  candidate.spec.global_batch_size = 2 * plan.kinds[1].share.most() * plan.layout.micro_batch;
  small.memory =
      bytes_on(task, small, candidate, 1) - state * task.model().parameter_count() * 4 / 10;
  return cluster;
}

UnequalPlan one_of_each_type() {
  UnequalPlan plan;
  plan.layout.data = 2;
  plan.layout.sharded = true;
  plan.kinds = {{{0}, {4}, 1, {24, 0}}, {{1}, {4}, 1, {8, 0}}};
  return plan;
}

TEST(ExactPlan, GivesADataRankWithLittleMemoryLessOfTheOptimizer) {
  const auto task = layers_of_gpt2("32");
  const UnequalPlan plan = one_of_each_type();
  const Cluster cluster = with_little_memory(*task, plan);
  std::vector<GpuType> types = gpu_types(*task, cluster, 0);
  ModelCut cut(*task, cluster.groups.front().profile.device);
  ExactPlanner planner(*task, types, cut);
  const ExactPlan exact = planner.plan(plan);
  EXPECT_TRUE(exact.fits());
  ASSERT_EQ(exact.parts.optimizer.size(), 2u);
  EXPECT_GT(exact.parts.optimizer[0], exact.parts.optimizer[1]);
  EXPECT_GT(exact.slice(1), 0.08);  // no less than it has memory for
  EXPECT_LT(exact.slice(1), 0.1);
  EXPECT_DOUBLE_EQ(exact.slice(0) + exact.slice(1), 1);
  for (std::size_t k = 0; k < 2; ++k) {
    cost::Candidate candidate = task->candidate(plan.layout, exact.parts);
    EXPECT_EQ(exact.kinds[k].bytes[0], bytes_on(*task, cluster.groups[k].profile, candidate, k));
  }
  // Where no other rank has memory for it.
  Cluster small = cluster;
  small.groups[0].profile.memory = small.groups[1].profile.memory;
  std::vector<GpuType> small_types = gpu_types(*task, small, 0);
  EXPECT_FALSE(ExactPlanner(*task, small_types, cut).plan(plan).fits());
}

TEST(UnequalSearch, FindsAPlanThatFitsWithUnequalSlicesOnly) {
  const auto task = layers_of_gpt2("32");
  SearchAim aim;
  aim.margin = 0;
  aim.pins = parse_pins("tp 1 pp 1 dp 2 mb 1 chunks 1 none");
  const Cluster cluster = with_little_memory(*task, one_of_each_type());
  Question question;
  question.cluster = cluster;
  question.aim = aim;
  const UnequalResult found = search_unequal(*task, cluster, aim);
  ASSERT_GE(found.launched, 0);
  const Choice& best = found.best[at(found.launched)];
  ASSERT_TRUE(best.plan);
  EXPECT_FALSE(best.plan->parts.optimizer.empty());
  EXPECT_THAT(launch_words(*task, question, best), testing::Contains("--optimizer-shares"));
  EXPECT_THAT(report(*task, question, found),
              testing::ContainsRegex(" %\\s+of\\s+the\\s+optimizer\n"));
}

TEST(UnequalSearch, GivesTheFasterGpuMoreToUpdate) {
  const auto task = layers_of_gpt2("4");
  SearchAim aim;
  aim.pins = parse_pins("tp 1 pp 1 dp 2 mb 1 chunks 1 none");
  Cluster cluster = one_gpu_each();
  for (GpuGroup& group : cluster.groups) group.network.port = {0, 1e15};  // nothing but the update
  const UnequalResult found = search_unequal(*task, cluster, aim);
  ASSERT_GE(found.launched, 0);
  const Choice& best = found.best[at(found.launched)];
  ASSERT_TRUE(best.plan);
  ASSERT_EQ(best.plan->parts.optimizer.size(), 2u);
  const double faster = cluster.groups[0].profile.loop_rate("update", false) /
                        cluster.groups[1].profile.loop_rate("update", false);
  EXPECT_GT(faster, 2);
  EXPECT_NEAR(best.plan->slice(0) / best.plan->slice(1), faster, 0.06 * faster);
}

}  // namespace
}  // namespace trireme::layouts
