// Layouts that share traces and plans need what each rank plans alone.
#include "runtime/planner/layout.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "runtime/planner/step_time.h"
#include "tests/planner/tiny_profile.h"

namespace trireme::planner {
namespace {

TransformerConfig small(bool llama) {
  TransformerConfig config = preset(llama ? "tiny-llama" : "tiny");
  config.seq_length = 16;
  return config;
}

Candidate candidate(const MeshShape& mesh, bool sharded) {
  Candidate c;
  c.spec.mesh = mesh;
  c.spec.micro_batch_size = 2;
  c.spec.global_batch_size = 16;
  c.spec.bucket_size = 2000;
  c.spec.compute = DType::bf16;
  c.spec.update = sharded ? Update::sharded : Update::replicated;
  return c;
}

void expect_as_planned_alone(const PlannedLayout& layout, const ModelOfCandidate& models) {
  const Candidate& c = layout.candidate;
  Index most = 0;
  for (int rank = 0; rank < c.spec.mesh.size(); ++rank) {
    const PlannedTraining alone(models(c), c.spec, rank, cpu_traits());
    most = std::max(most, alone.memory_need().device());
    for (const PlannedRank& planned : layout.ranks) {
      if (planned.rank != rank) continue;
      EXPECT_EQ(planned.need.describe(), alone.memory_need().describe());
      EXPECT_EQ(planned.need.total(), alone.memory_need().total());
    }
    for (const auto& stage : layout.stages) {
      if (stage->rank != rank) continue;
      EXPECT_EQ(stage->describe(), alone.describe());
    }
  }
  EXPECT_EQ(layout.tightest().need.device(), most) << c.spec.mesh.describe();
}

TEST(LayoutPlanner, PlansWhatEachRankPlansAlone) {
  for (const bool llama : {false, true}) {
    const ModelOfCandidate models = transformer_models(small(llama));
    LayoutPlanner planner(models, cpu_traits());
    for (const MeshShape& mesh :
         {MeshShape(2, 2, 2), MeshShape(4, 2, 1), MeshShape(1, 4, 2), MeshShape(8, 1, 1)})
      for (const bool sharded : {false, true}) {
        Candidate c = candidate(mesh, sharded);
        expect_as_planned_alone(planner.plan(c), models);
        c.recompute = RecomputeGranularity::full;
        c.lm_head_chunks = 2;
        expect_as_planned_alone(planner.plan(c), models);
      }
  }
}

TEST(LayoutPlanner, KnowsTheSplitOfTheBackwardFromTheWholeOne) {
  const ModelOfCandidate models = transformer_models(small(false));
  LayoutPlanner planner(models, cpu_traits());
  Candidate c = candidate({2, 2, 1}, false);
  const Index whole = planner.plan(c).tightest().need.activations;
  c.spec.schedule = ScheduleKind::zero_bubble;
  expect_as_planned_alone(planner.plan(c), models);
  EXPECT_GT(planner.plan(c).tightest().need.activations, whole);
}

TEST(LayoutPlanner, AddsWhatCheckpointsNeed) {
  LayoutPlanner planner(transformer_models(small(false)), cpu_traits(),
                        [](const PlannedTraining& plan, MemoryNeed& need) {
                          need.checkpoint = plan.rank == 0 ? 1000 : 0;
                        });
  const PlannedLayout layout = planner.plan(candidate({2, 1, 1}, false));
  EXPECT_EQ(layout.ranks.front().need.host() - layout.ranks.back().need.host(), 1000);
}

TEST(LayoutPlanner, CountsTheCommunicatorsOfARank) {
  LayoutPlanner planner(transformer_models(small(false)), cpu_traits());
  EXPECT_EQ(planner.plan(candidate({1, 1, 1}, false)).communicators(), 0);
  EXPECT_EQ(planner.plan(candidate({2, 1, 1}, false)).communicators(), 2) << "all, data";
  EXPECT_EQ(planner.plan(candidate({2, 2, 2}, false)).communicators(), 5) << "and the tied table";
  Profile profile = unit_profile();
  profile.context_bytes = 100;
  profile.communicator_bytes = 10;
  const PlannedLayout layout = planner.plan(candidate({2, 2, 2}, false));
  EXPECT_EQ(device_bytes(layout, profile), layout.tightest().need.total() + 150)
      << "a CPU is its own host";
  profile.device = gpu_traits("H100-SXM");
  EXPECT_EQ(device_bytes(layout, profile), layout.tightest().need.device() + 150);
}

}  // namespace
}  // namespace trireme::planner
