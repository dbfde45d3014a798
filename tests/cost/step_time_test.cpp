// The time of a step of tiny models on a tiny device, against sums made by hand.
#include "runtime/cost/step_time.h"

#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "runtime/cost/reductions.h"
#include "tests/cost/tiny_profile.h"
#include "tests/support/message_of.h"

namespace trireme::cost {
namespace {

constexpr Index rows = 2, width = 4;
constexpr double product = 2.0 * rows * width * width;        // of a layer, forward
constexpr double message = 4.0 * rows * width;                // of the values between two layers
constexpr double padded_bucket = 128, agreement_on_norm = 8;  // of 16 weights over 2 ranks

/// A layer in each block. The first one makes no gradient of its input.
ModelOfCandidate layers(int count) {
  return [count](const Candidate&) {
    return Model([count](Graph& g) {
      Value x = g.input("x", {rows, width});
      for (int i = 0; i < count; ++i)
        x = g.block("block", i, [&] { return linear(x, "layer", width, {.bias = Bias::none}); });
      return squared_error(x, g.input("y", {rows, width}));
    });
  };
}

Candidate candidate(const MeshShape& mesh, Index micro_batches) {
  Candidate c;
  c.spec.mesh = mesh;
  c.spec.micro_batch_size = rows;
  c.spec.global_batch_size = rows * micro_batches * mesh.size(Axis::data);
  c.spec.bucket_size = 1;  // a bucket for each layer
  return c;
}

PlannedLayout planned(const Candidate& c, int count = 2) {
  return LayoutPlanner(layers(count), cpu_traits()).plan(c);
}

double sum_of_parts(const StepTime& t) {
  return t.products + t.attention + t.memory_bound + t.tensor_traffic + t.host + t.exchange +
         t.data_traffic + t.contention + t.optimizer + t.bubble;
}

TEST(StepTime, OfOneRankIsThatOfItsProducts) {
  const StepTime time = step_time(planned(candidate({1, 1, 1}, 4)), products_only(), {});
  EXPECT_NEAR(time.products, 4 * (2 * product + 3 * product), 1e-9);
  EXPECT_NEAR(time.total, time.products, 1e-9);
  EXPECT_NEAR(time.bubble, 0, 1e-9);
}

// Stage 0: forward 1, backward 1; stage 1: forward 1, backward 2 products. Stage 1 begins after one
// product of stage 0, never waits again, and the last backward of stage 0 follows.
TEST(StepTime, HasTheBubbleOfUnequalStages) {
  const StepTime time = step_time(planned(candidate({1, 2, 1}, 4)), products_only(), {});
  EXPECT_EQ(time.critical_stage, 1);
  EXPECT_NEAR(time.products, 4 * 3 * product, 1e-9);
  EXPECT_NEAR(time.bubble, 2 * product, 1e-9);
  EXPECT_NEAR(time.total, 14 * product, 1e-9);
}

TEST(StepTime, ShowsTransfersThatAreNotHidden) {
  Profile profile = products_only();
  profile.node = {0, 1};
  const StepTime time = step_time(planned(candidate({1, 2, 1}, 1)), profile, {});
  EXPECT_NEAR(time.total, 5 * product + 2 * message + agreement_on_norm, 1e-9);
  EXPECT_NEAR(time.exchange, 2 * message, 1e-9) << "it receives values, and sends gradients";
  EXPECT_NEAR(sum_of_parts(time), time.total, 1e-9);
}

// On nodes of 4 ranks 0 and 3 share one; ranks 1 and 4, and 2 and 5, do not.
TEST(StepTime, HasTheSlowestMessageOfAllPipelines) {
  const PlannedLayout layout = planned(candidate({3, 2, 1}, 1));
  Profile profile = products_only();
  profile.port_efficiency = 1;
  const auto exchange = [&](int ranks_per_node) {
    return step_time(layout, profile, {ranks_per_node, {0, 1}}).exchange;
  };
  EXPECT_NEAR(exchange(6), 0, 1e-9);
  EXPECT_NEAR(exchange(4), 2 * message, 1e-9);
  EXPECT_NEAR(exchange(3), 2 * message, 1e-9);
}

// Of the holders of a slice those of data rank 0, ranks 0 and 3, share a node of 4.
TEST(StepTime, SumsTiedSlicesInTheTimeOfTheSlowestDataRank) {
  Candidate c = candidate({3, 2, 1}, 1);
  c.spec.update = Update::sharded;
  const PlannedLayout layout =
      LayoutPlanner(transformer_models(preset("tiny")), cpu_traits()).plan(c);
  const auto time = [&](int ranks_per_node) {
    return tie_time(*layout.stages.front(), 0, products_only(), {ranks_per_node, {0, 1}});
  };
  EXPECT_LT(time(6), 1);
  EXPECT_GT(time(4), 1);
  EXPECT_EQ(time(4), time(3));
}

TEST(StepTime, TakesAProfileForEachStage) {
  const Profile fast = products_only();
  Profile slow = fast;
  slow.peak_f32 = 0.25;
  const PlannedLayout layout = planned(candidate({1, 2, 1}, 1));
  EXPECT_NEAR(step_time(layout, {&slow, &fast}, {}).total, (8 + 3) * product, 1e-9);
  EXPECT_EQ(step_time(layout, {&slow, &fast}, {}).critical_stage, 0);
  EXPECT_EQ(message_of([&] { step_time(layout, {&slow}, {}); }),
            "1 profiles for 2 stages: a profile for each");
}

// The last layer's weights are ready after 4 products, the first one's after 5. Each sum takes the
// time of 2 products.
TEST(StepTime, SumsBucketsBesideBackward) {
  Profile profile = products_only();
  profile.node = {0, 1};
  ASSERT_EQ(padded_bucket, 2 * product);
  const PlannedLayout layout = planned(candidate({2, 1, 1}, 1));
  const StepTime time = step_time(layout, profile, {});
  EXPECT_NEAR(time.total, (4 + 2 + 2) * product + agreement_on_norm, 1e-9);
  EXPECT_NEAR(time.data_traffic, 3 * product, 1e-9);
  EXPECT_NEAR(time.hidden_traffic, product, 1e-9);
  EXPECT_NEAR(sum_of_parts(time), time.total, 1e-9);
  profile.contention = 0.5;
  const StepTime slowed = step_time(layout, profile, {});
  EXPECT_NEAR(slowed.contention, 0.5 * product, 1e-9);
  EXPECT_NEAR(slowed.total, time.total + slowed.contention, 1e-9);
  EXPECT_NEAR(sum_of_parts(slowed), slowed.total, 1e-9);
}

TEST(StepTime, OfADistributedOptimizerScattersAndGathers) {
  Profile profile = products_only();
  profile.node = {0, 1};
  Candidate c = candidate({2, 1, 1}, 1);
  c.spec.update = Update::sharded;
  const StepTime time = step_time(planned(c), profile, {});
  // Half a bucket each way and bucket: the first scatter is hidden, the others are not.
  EXPECT_NEAR(time.data_traffic, (1 + 2) * product, 1e-9);
  EXPECT_NEAR(time.total, (5 + 1 + 2) * product + agreement_on_norm, 1e-9);
}

TEST(StepTime, UpdatesWhatTheRankHas) {
  Profile profile = unit_profile();
  profile.peak_f32 = 1e30;
  Candidate c = candidate({1, 1, 1}, 1);
  c.spec.optimizer.kind = OptimizerOptions::Kind::sgd;
  c.spec.optimizer.momentum = 0;
  const StepTime time = step_time(planned(c), profile, {});
  // Zeroes gradients, reads them for the norm, and once more beside the parameters.
  EXPECT_NEAR(time.optimizer, 2 * 16 * (4 + 4 + 12), 1e-9);
}

TEST(StepTime, IsNeverShorterThanItsHost) {
  Profile profile = products_only();
  profile.op_seconds = 1000;
  const PlannedLayout layout = planned(candidate({1, 1, 1}, 1));
  const StepTime queued = step_time(layout, profile, {});
  EXPECT_GT(queued.host, 0);
  EXPECT_NEAR(queued.host + queued.products, std::round(queued.host / 1000) * 1000 + 1000, 1001);
  profile.queues = false;
  EXPECT_NEAR(step_time(layout, profile, {}).total, queued.total + queued.products, 1e-9);
}

TEST(StepTime, CountsWhatIsRecomputed) {
  const ModelOfCandidate again = [](const Candidate&) {
    return Model([](Graph& g) {
      const Value x = g.input("x", {rows, width});
      const Value h = g.block("block", 0, [&] {
        return g.recompute([&] {
          const Value y = linear(x, "up", width, {.bias = Bias::none});
          return linear(gelu_erf(y), "down", width, {.bias = Bias::none});
        });
      });
      return squared_error(h, g.input("y", {rows, width}));
    });
  };
  const Candidate c = candidate({1, 1, 1}, 1);
  const StepTime time = step_time(LayoutPlanner(again, cpu_traits()).plan(c), products_only(), {});
  EXPECT_NEAR(time.recompute, product, 1e-9) << "the result of the scope is not needed again";
  EXPECT_NEAR(time.products, (2 + 3 + 1) * product, 1e-9);
}

void expect_no_less_than_its_bound(const Candidate& c, int count) {
  LayoutPlanner planner(layers(count), cpu_traits());
  // The candidate of flops_per_sample() has a micro-batch of 1, this model one of 2 rows.
  const double bound =
      least_step_time(c, planner.flops_per_sample(DType::f32) / rows, products_only());
  EXPECT_GT(bound, 0);
  EXPECT_LE(bound, step_time(planner.plan(c), products_only(), {}).total * (1 + 1e-9))
      << c.spec.mesh.describe();
}

TEST(StepTime, IsNoLessThanItsBound) {
  for (const MeshShape& mesh : {MeshShape(1, 1, 1), MeshShape(2, 1, 1), MeshShape(1, 2, 1)})
    expect_no_less_than_its_bound(candidate(mesh, 4), 2);
}

// The first micro-batch comes through one chunk of each stage only: 56 products, where the bound of
// one chunk would be 68.
TEST(StepTime, OfSeveralChunksIsNoLessThanItsBound) {
  Candidate c = candidate({1, 4, 1}, 4);
  c.spec.schedule = ScheduleKind::gpipe;
  c.spec.chunks = 4;
  expect_no_less_than_its_bound(c, 16);
}

}  // namespace
}  // namespace trireme::cost
