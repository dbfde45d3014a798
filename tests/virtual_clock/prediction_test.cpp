// A few of the random layouts, and mistakes of a planner that the comparison has to find.
#include <gtest/gtest.h>

#include "runtime/cost/step_time.h"
#include "tests/virtual_clock/execute.h"
#include "tests/virtual_clock/random_layout.h"

namespace trireme::virtual_clock {
namespace {

constexpr double tolerance = 0.01;

TEST(Prediction, IsTheTimeOfAFewRandomLayouts) {
  for (int number = 200; number < 212; ++number) {
    const RandomLayout layout = random_layout(number);
    EXPECT_NEAR(predicted_over_executed(layout), 1, tolerance)
        << "layout " << number << ": " << layout.describe();
  }
}

/// Two stages, two data ranks, sums of gradients that backward cannot hide.
class PlantedMistake : public ::testing::Test {
 protected:
  PlantedMistake() {
    layout_ = random_layout(0);
    layout_.candidate = {};
    TrainingSpec& spec = layout_.candidate.spec;
    spec.mesh = MeshShape(2, 4, 1);
    spec.global_batch_size = 16;
    spec.compute = DType::bf16;
    spec.bucket_size = 1 << 20;
    layout_.model = preset("tiny");
    layout_.model.num_layers = 8;
    layout_.model.hidden_size = 1024;
    layout_.model.num_attention_heads = 16;
    layout_.network.ranks_per_node = 1;
    executed_ = execute(layout_.made(), spec, layout_.profile, layout_.network).front().seconds();
  }
  double off(const cost::PlannedLayout& planned) const {
    const double predicted = step_time(planned, layout_.profile, layout_.network).total;
    return std::abs(predicted / executed_ - 1);
  }

  RandomLayout layout_;
  double executed_ = 0;
};

TEST_F(PlantedMistake, IsNoneWithoutOne) { EXPECT_LT(off(layout_.planned()), tolerance); }

TEST_F(PlantedMistake, OfTheScheduleIsFound) {
  RandomLayout other = layout_;
  other.candidate.spec.schedule = ScheduleKind::zero_bubble;
  cost::PlannedLayout planned = layout_.planned();
  planned.programs = other.planned().programs;
  EXPECT_GT(off(planned), tolerance);
}

TEST_F(PlantedMistake, OfTheBucketsIsFound) {
  RandomLayout other = layout_;
  other.candidate.spec.bucket_size = 64 << 20;  // one for all, which starts when backward is done
  EXPECT_GT(off(other.planned()), tolerance);
}

TEST_F(PlantedMistake, OfWhatIsRecomputedIsFound) {
  RandomLayout other = layout_;
  other.candidate.recompute = RecomputeGranularity::full;
  EXPECT_GT(off(other.planned()), tolerance);
}

TEST_F(PlantedMistake, OfTheUpdateIsFound) {
  RandomLayout other = layout_;
  other.candidate.spec.update = Update::sharded;
  EXPECT_GT(off(other.planned()), tolerance);
}

TEST_F(PlantedMistake, OfTheRankThatUpdatesMostIsFound) {
  RandomLayout unequal = layout_;
  TrainingSpec& spec = unequal.candidate.spec;
  spec.mesh = MeshShape(2, 1, 1);
  spec.update = Update::sharded;
  spec.optimizer_shares = {1, 7};
  unequal.network.port = {0, 1e15};  // the gather does not hide the update
  EXPECT_NEAR(predicted_over_executed(unequal), 1, tolerance);
  unequal.candidate.data_rank = 0;
  EXPECT_LT(predicted_over_executed(unequal), 1 - tolerance);
}

}  // namespace
}  // namespace trireme::virtual_clock
