// Layouts that share traces and plans need what each rank plans alone.
#include "runtime/cost/planned_layout.h"

#include <algorithm>
#include <regex>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"

#include "runtime/core/at.h"
#include "runtime/cost/stage_time.h"
#include "runtime/cost/step_time.h"
#include "tests/cost/tiny_profile.h"

namespace trireme::cost {
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

/// Chunks that are alike have the names of one of them.
std::string without_block_numbers(const std::string& plan) {
  return std::regex_replace(plan, std::regex(R"(block\.[0-9]+)"), "block");
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
      EXPECT_EQ(without_block_numbers(stage->describe()), without_block_numbers(alone.describe()));
      EXPECT_EQ(stage->flat.describe(), alone.flat.describe());
      for (std::size_t chunk = 0; chunk < alone.train.model().chunks.size(); ++chunk) {
        const Plan &planned = stage->train.model().chunks[chunk],
                   &own = alone.train.model().chunks[chunk];
        EXPECT_EQ(planned.stage(), own.stage());
        EXPECT_EQ(planned.parameters(), own.parameters());
        EXPECT_EQ(planned.inputs(), own.inputs());
      }
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

TEST(LayoutPlanner, PlansDataRanksWithUnequalSlices) {
  const ModelOfCandidate models = transformer_models(small(false));
  LayoutPlanner planner(models, cpu_traits());
  for (const DataShares& shares : {DataShares{1, 3, 3, 1}, {0, 0, 5, 0}, {7, 8, 9, 10}}) {
    Candidate c = candidate({4, 2, 1}, true);
    c.spec.optimizer_shares = shares;
    expect_as_planned_alone(planner.plan(c), models);
  }
}

TEST(LayoutPlanner, TimesTheDataRankThatUpdatesMost) {
  LayoutPlanner planner(transformer_models(small(false)), cpu_traits());
  Candidate c = candidate({2, 1, 1}, true);
  const auto optimizer_time = [&] {
    return step_time(planner.plan(c), unit_profile(), {}).optimizer;
  };
  const double equal = optimizer_time();
  c.spec.optimizer_shares = {1, 3};
  EXPECT_EQ(planner.plan(c).data_rank, 1);
  const double most = optimizer_time();
  EXPECT_GT(most, equal);
  c.data_rank = 0;
  EXPECT_EQ(planner.plan(c).data_rank, 0);
  EXPECT_LT(optimizer_time(), equal);
  c.data_rank.reset();
  c.spec.data_parallel_shares = {3, 1};  // runs most micro-batches
  EXPECT_EQ(planner.plan(c).data_rank, 0);
}

/// All of `stage` but names and ids.
void expect_alike(const PlannedTraining& shared, const PlannedTraining& alone) {
  Profile profile = unit_profile();
  profile.op_seconds = 1;
  const StageTime a = stage_time(shared, profile, {}), b = stage_time(alone, profile, {});
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.parts.products, b.parts.products);
  EXPECT_EQ(a.parts.tensor_traffic, b.parts.tensor_traffic);
  ASSERT_EQ(shared.flat.buckets().size(), alone.flat.buckets().size());
  for (std::size_t i = 0; i < alone.flat.buckets().size(); ++i)
    EXPECT_EQ(shared.flat.buckets()[i].range, alone.flat.buckets()[i].range);
  for (std::size_t c = 0; c < b.chunks.size(); ++c) {
    EXPECT_EQ(a.chunks[c].forward.seconds, b.chunks[c].forward.seconds);
    const Plan &x = shared.train.model().chunks[c], &y = alone.train.model().chunks[c];
    EXPECT_EQ(x.receive_values().bytes, y.receive_values().bytes);
    EXPECT_EQ(x.send_values().bytes, y.send_values().bytes);
    EXPECT_EQ(x.send_gradients().bytes, y.send_gradients().bytes);
    EXPECT_EQ(x.receive_gradients().bytes, y.receive_gradients().bytes);
  }
}

TEST(LayoutPlanner, SharesThePlansOfStagesThatAreAlike) {
  TransformerConfig config = small(true);
  config.num_layers = 16;
  const ModelOfCandidate models = transformer_models(config);
  LayoutPlanner planner(models, cpu_traits());
  using Kind = ScheduleKind;
  for (const auto& [schedule, chunks] :
       {std::pair(Kind::one_f_one_b, 1), std::pair(Kind::interleaved, 2),
        std::pair(Kind::zero_bubble, 1), std::pair(Kind::zero_bubble_v, 2)})
    for (const bool sharded : {false, true}) {
      if (sharded != (schedule == Kind::interleaved)) continue;  // one of each takes long enough
      Candidate c = candidate({2, 8, 1}, sharded);
      c.spec.global_batch_size = 32;
      c.spec.schedule = schedule;
      c.spec.chunks = chunks;
      const PlannedLayout layout = planner.plan(c);
      expect_as_planned_alone(layout, models);
      EXPECT_EQ(layout.stages.at(3), layout.stages.at(4)) << name(schedule);
      EXPECT_NE(layout.stages.at(0), layout.stages.at(3)) << name(schedule);
      for (int stage = 0; stage < 8; ++stage)
        expect_alike(*layout.stages.at(at(stage)),
                     PlannedTraining(models(c), c.spec,
                                     c.spec.mesh.rank_at({{Axis::pipeline, stage}}), cpu_traits()));
    }
}

TEST(LayoutPlanner, SharesThePlansOfChunksThatAreAlike) {
  TransformerConfig config = small(true);
  config.num_layers = 12;
  const ModelOfCandidate models = transformer_models(config);
  LayoutPlanner planner(models, cpu_traits());
  Candidate c = candidate({1, 2, 2}, true);
  c.spec.schedule = ScheduleKind::interleaved;
  c.spec.chunks = 6;
  const PlannedLayout layout = planner.plan(c);
  expect_as_planned_alone(layout, models);
  const std::vector<Plan>& first = layout.stages.front()->train.model().chunks;
  EXPECT_EQ(&first.at(2).work(), &first.at(4).work()) << "one plan";
  EXPECT_NE(&first.at(0).work(), &first.at(2).work()) << "the embedding";
  const std::vector<Plan>& last = layout.stages.back()->train.model().chunks;
  EXPECT_NE(&last.at(5).work(), &last.at(3).work()) << "the head";
  EXPECT_NO_THROW(first.at(0).state());
  EXPECT_THROW(first.at(4).state(), Error) << "its names and nodes are not those of the stage";
}

/// A model whose third block is wider.
Model wide_in_the_middle() {
  return Model([](Graph& g) {
    Value x = g.input("x", {2, 4});
    for (int i = 0; i < 6; ++i)
      x = g.block("block", i, [&] {
        const Value h = linear(x, "up", i == 2 ? 32 : 8, {.bias = Bias::none});
        return linear(h, "down", 4, {.bias = Bias::none});
      });
    return squared_error(x, g.input("y", {2, 4}));
  });
}

TEST(LayoutPlanner, PlansStagesThatDiffer) {
  const ModelOfCandidate models = [](const Candidate&) { return wide_in_the_middle(); };
  Candidate c = candidate({1, 6, 1}, false);
  c.spec.compute = DType::f32;
  const PlannedLayout layout = LayoutPlanner(models, cpu_traits()).plan(c);
  expect_as_planned_alone(layout, models);
  EXPECT_NE(layout.stages.at(2), layout.stages.at(3));
  EXPECT_NE(layout.stages.at(1), layout.stages.at(3));
}

/// A model whose blocks load an input each.
Model masked() {
  return Model([](Graph& g) {
    Value x = g.input("x", {2, 4});
    for (int i = 0; i < 6; ++i)
      x = g.block("block", i, [&] {
        const Value mask = g.input("mask." + std::to_string(i), {2, 4});
        return linear(x * mask, "up", 4, {.bias = Bias::none});
      });
    return squared_error(x, g.input("y", {2, 4}));
  });
}

TEST(LayoutPlanner, PlansTheInputsOfEachChunk) {
  const ModelOfCandidate models = [](const Candidate&) { return masked(); };
  Candidate c = candidate({1, 2, 1}, false);
  c.spec.compute = DType::f32;
  c.spec.schedule = ScheduleKind::interleaved;
  c.spec.chunks = 3;
  expect_as_planned_alone(LayoutPlanner(models, cpu_traits()).plan(c), models);
}

/// A model whose blocks 3 to 6 keep many values at a time, but not in training.
Model large_in_evaluation() {
  const auto trace = [](Graph& g, bool trains) {
    Value x = g.input("x", {2, 64});
    for (int i = 0; i < 10; ++i)
      x = g.block("block", i, [&] {
        Value h = linear(x, "up", 512, {.bias = Bias::none});
        Values more;
        for (int k = 0; k < (trains || i < 3 || i > 6 ? 0 : 40); ++k) more.push_back(tanh(h));
        for (const Value& value : more) h = h + value;
        return linear(h, "down", 64, {.bias = Bias::none});
      });
    return squared_error(x, g.input("y", {2, 64}));
  };
  Model model([trace](Graph& g) { return trace(g, true); });
  model.evaluation = [trace](Graph& g) { return trace(g, false); };
  return model;
}

TEST(LayoutPlanner, PlansEvaluationsThatNeedMoreThanTraining) {
  const ModelOfCandidate models = [](const Candidate&) { return large_in_evaluation(); };
  LayoutPlanner planner(models, cpu_traits());
  Candidate c = candidate({1, 10, 1}, false);
  c.spec.compute = DType::f32;
  for (const auto ranks : {LayoutPlanner::Ranks::one, LayoutPlanner::Ranks::all}) {
    const PlannedLayout layout = planner.plan(c, ranks);
    expect_as_planned_alone(layout, models);
    const PlannedTraining& large = *layout.stages.at(4);
    EXPECT_GT(large.evaluate.bytes(), large.train.bytes());
    EXPECT_EQ(&large, layout.stages.at(5).get());
    EXPECT_NE(&large, layout.stages.at(2).get());  // which is alike in training
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

TEST(LayoutPlanner, RanksWriteEachParameterAndItsMomentsOnce) {
  const TransformerConfig config = small(true);
  LayoutPlanner planner(transformer_models(config), cpu_traits());
  for (const bool sharded : {false, true})
    for (const MeshShape& mesh : {MeshShape(1, 1, 1), MeshShape(2, 2, 2)}) {
      const PlannedLayout layout = planner.plan(candidate(mesh, sharded));
      ASSERT_EQ(layout.ranks.size(), static_cast<std::size_t>(mesh.size()));
      Index saved = 0;
      for (const PlannedRank& rank : layout.ranks) saved += rank.saved.value();
      EXPECT_EQ(saved, 3 * 4 * config.parameter_count()) << mesh.describe();
    }
}

/// Of this layout one rank of each stage is planned, without its evaluation, as it is among all.
void expect_one_as_among_all(LayoutPlanner& planner, const Candidate& candidate) {
  const PlannedLayout one = planner.plan(candidate, LayoutPlanner::Ranks::one),
                      all = planner.plan(candidate);
  ASSERT_EQ(one.ranks.size(), static_cast<std::size_t>(candidate.spec.mesh.size(Axis::pipeline)));
  for (const PlannedRank& rank : one.ranks) {
    EXPECT_EQ(rank.saved, std::nullopt);
    EXPECT_EQ(std::count_if(all.ranks.begin(), all.ranks.end(),
                            [&](const PlannedRank& other) {
                              return other.rank == rank.rank &&
                                     other.need.describe() == rank.need.describe();
                            }),
              1);
  }
  EXPECT_EQ(step_time(one, unit_profile(), {}).total, step_time(all, unit_profile(), {}).total);
}

TEST(LayoutPlanner, PlansOneRankOfEachStageForTheTime) {
  for (const bool llama : {false, true}) {
    LayoutPlanner planner(transformer_models(small(llama)), cpu_traits());
    for (const MeshShape& mesh : {MeshShape(2, 2, 2), MeshShape(4, 2, 1), MeshShape(8, 1, 1)})
      for (const auto recompute : {RecomputeGranularity::none, RecomputeGranularity::full}) {
        Candidate c = candidate(mesh, true);
        c.recompute = recompute;
        c.lm_head_chunks = recompute == RecomputeGranularity::full ? 4 : 1;
        expect_one_as_among_all(planner, c);
      }
  }
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
}  // namespace trireme::cost
