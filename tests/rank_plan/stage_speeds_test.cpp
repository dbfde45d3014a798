// Pipeline ranks of unequal speed get unequal numbers of blocks.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"

#include "runtime/rank_plan/planned_training.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;

Model eight_blocks() {
  return Model([](Graph& g) {
    Value x = g.input("x", {2, 16});
    for (int b = 0; b < 8; ++b) x = g.block("block", b, [&] { return linear(x, "up", 16); });
    return squared_error(x, g.input("y", {2, 16}));
  });
}

/// Blocks of each virtual stage.
std::vector<int> blocks(int chunks, const std::vector<double>& speeds) {
  TrainingSpec spec;
  spec.mesh = MeshShape(1, 2, 1);
  spec.chunks = chunks;
  if (chunks > 1) spec.schedule = ScheduleKind::interleaved;
  spec.micro_batch_size = 2;
  spec.global_batch_size = 8;
  spec.stage_speeds = speeds;
  const PlannedTraining plan(eight_blocks(), spec, 1, cpu_traits());
  const PlannedModel& model = plan.train.model();
  const std::vector<int> block_of = block_of_nodes(*model.graph);
  std::vector<std::set<int>> found(static_cast<std::size_t>(2 * chunks));
  for (std::size_t node = 0; node < block_of.size(); ++node)
    found[static_cast<std::size_t>(model.cut.stage_of_node[node])].insert(block_of[node]);
  EXPECT_EQ(plan.evaluate.model().cut.stage_of_node, model.cut.stage_of_node);
  std::vector<int> counts;
  for (const std::set<int>& stage : found) counts.push_back(static_cast<int>(stage.size()));
  return counts;
}

TEST(StageSpeeds, CutTheModelInProportion) {
  EXPECT_THAT(blocks(1, {}), ElementsAre(4, 4));
  EXPECT_THAT(blocks(1, {3, 1}), ElementsAre(6, 2));
  EXPECT_THAT(blocks(1, {0.1, 0.3}), ElementsAre(2, 6));
}

TEST(StageSpeeds, AreThoseOfTheRanksOfVirtualStages) {
  EXPECT_THAT(blocks(2, {3, 1}), ElementsAre(3, 1, 3, 1));
}

TEST(StageSpeeds, ThatAreNotOneForEachRankAreRefused) {
  EXPECT_EQ(message_of([] {
              blocks(1, {1, 2, 3});
            }),
            "--stage-speeds are 3 speeds for 2 pipeline ranks; give one for each "
            "pipeline rank");
  EXPECT_EQ(message_of([] {
              blocks(1, {1, 0});
            }),
            "the speed of a stage has to be positive, not 0");
}

}  // namespace
}  // namespace trireme
