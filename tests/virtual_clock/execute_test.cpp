// Steps of tiny models on simulated ranks, against sums made by hand.
#include "tests/virtual_clock/execute.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "runtime/cost/step_time.h"
#include "tests/cost/tiny_profile.h"

namespace trireme::virtual_clock {
namespace {

using namespace cost;

constexpr Index rows = 2, width = 4;
constexpr double product = 2.0 * rows * width * width;  // of a layer, forward
constexpr double message = 4.0 * rows * width;          // of the values between two layers
constexpr double agreement_on_norm = 8;                 // of two ranks

/// A layer in each block. The first one makes no gradient of its input.
Model layers(int count) {
  return Model([count](Graph& g) {
    Value x = g.input("x", {rows, width});
    for (int i = 0; i < count; ++i)
      x = g.block("block", i, [&] { return linear(x, "layer", width, {.bias = Bias::none}); });
    return squared_error(x, g.input("y", {rows, width}));
  });
}

TrainingSpec spec_of(const MeshShape& mesh, Index micro_batches) {
  TrainingSpec spec;
  spec.mesh = mesh;
  spec.micro_batch_size = rows;
  spec.global_batch_size = rows * micro_batches * mesh.size(Axis::data);
  spec.bucket_size = 1;  // a bucket for each layer
  return spec;
}

double seconds(const TrainingSpec& spec, const Profile& profile, int layer_count = 2) {
  return execute(layers(layer_count), spec, profile, {}).front().seconds();
}

TEST(Execute, TakesTheProductsOfOneRank) {
  EXPECT_NEAR(seconds(spec_of({1, 1, 1}, 4), products_only()), 4 * 5 * product, 1e-9);
}

// As StepTime.HasTheBubbleOfUnequalStages, which is the planner's.
TEST(Execute, HasTheBubbleOfUnequalStages) {
  EXPECT_NEAR(seconds(spec_of({1, 2, 1}, 4), products_only()), 14 * product, 1e-9);
}

TEST(Execute, CountsWhatEachDeviceComputes) {
  const auto step = execute(layers(2), spec_of({1, 2, 1}, 4), products_only(), {}).front();
  EXPECT_NEAR(step.ranks[0].busy, 4 * 2 * product, 1e-9);
  EXPECT_NEAR(step.ranks[1].busy, 4 * 3 * product, 1e-9);
  EXPECT_NEAR(step.busy(), 20.0 / 28, 1e-9);
}

TEST(Execute, WaitsForTransfers) {
  Profile profile = products_only();
  profile.node = {0, 1};
  EXPECT_NEAR(seconds(spec_of({1, 2, 1}, 1), profile),
              5 * product + 2 * message + agreement_on_norm, 1e-9);
}

TEST(Execute, SumsBucketsBesideBackward) {
  Profile profile = products_only();
  profile.node = {0, 1};
  const auto step = execute(layers(2), spec_of({2, 1, 1}, 1), profile, {}).front();
  EXPECT_NEAR(step.backward(), 5 * product, 1e-9);
  EXPECT_NEAR(step.summed(), (4 + 2 + 2) * product, 1e-9) << "one sum is half hidden";
  EXPECT_NEAR(step.seconds(), 8 * product + agreement_on_norm, 1e-9);
}

TEST(Execute, ScattersAndGathersWithADistributedOptimizer) {
  Profile profile = products_only();
  profile.node = {0, 1};
  TrainingSpec spec = spec_of({2, 1, 1}, 1);
  spec.update = Update::sharded;
  EXPECT_NEAR(seconds(spec, profile), (5 + 1 + 2) * product + agreement_on_norm, 1e-9);
}

TEST(Execute, UpdatesWhatTheRankHas) {
  Profile profile = unit_profile();
  profile.peak_f32 = 1e30;
  TrainingSpec spec = spec_of({1, 1, 1}, 1);
  spec.optimizer.kind = OptimizerOptions::Kind::sgd;
  spec.optimizer.momentum = 0;
  const auto step = execute(layers(2), spec, profile, {}).front();
  EXPECT_NEAR(step.ranks[0].updated - step.ranks[0].summed, 2 * 16 * (4 + 12), 1e-9);
}

// A call of the host takes 1000 s. A GPU is done soon after the last one; a CPU rank computes in
// between.
TEST(Execute, LetsTheHostOfAGpuQueueAhead) {
  Profile profile = products_only();
  const TrainingSpec spec = spec_of({1, 1, 1}, 1);
  const double device = seconds(spec, profile);
  profile.op_seconds = 1000;
  EXPECT_NEAR(std::fmod(seconds(spec, profile), 1000), 0, 1e-9);
  profile.queues = false;
  EXPECT_NEAR(std::fmod(seconds(spec, profile), 1000), device, 1e-9);
}

TEST(Execute, RepeatsItsSteps) {
  Profile profile = products_only();
  profile.node = {0, 1};
  const auto steps = execute(layers(4), spec_of({2, 2, 1}, 3), profile, {}, 3);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_NEAR(steps[1].seconds(), steps[0].seconds(), 1e-9);
  EXPECT_NEAR(steps[2].seconds(), steps[0].seconds(), 1e-9);
}

TEST(Execute, SimulatesAThousandRanks) {
  const Network one_node{.ranks_per_node = 1024};
  const auto step = execute(layers(2), spec_of({512, 2, 1}, 2), products_only(), one_node).front();
  EXPECT_EQ(step.ranks.size(), 1024u);
  EXPECT_NEAR(step.seconds(), 8 * product, 1e-9);
}

}  // namespace
}  // namespace trireme::virtual_clock
