// The data ranks divide the micro-batches of a step by their shares.
#include "trireme/rank_plan/micro_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"

#include "runtime/rank_plan/planned_training.h"
#include "runtime/rank_plan/reduction_order.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(MicroBatches, AreRunOnceEachWhateverTheShares) {
  for (const DataShares& shares : {DataShares{}, {1, 1, 1}, {3, 2, 1}, {1, 1, 4}, {6, 3, 3}}) {
    Index next = 0;
    for (Index rank = 0; rank < 3; ++rank) {
      const MicroBatchRange range = micro_batches_of(12, shares, 3, rank);
      EXPECT_EQ(range.first, next);
      EXPECT_GE(range.count, 1);
      if (!shares.empty()) {
        EXPECT_EQ(range.count * sum_of_shares(shares, 3),
                  12 * shares[static_cast<std::size_t>(rank)]);
      }
      next += range.count;
    }
    EXPECT_EQ(next, 12) << describe(shares);
  }
}

TEST(MicroBatches, OfSharesThatDoNotFitAreRefused) {
  const auto refusal = [](Index all, const DataShares& shares) {
    return message_of([&] { micro_batches_of(all, shares, 2, 0); });
  };
  EXPECT_EQ(refusal(6, {3, 2, 1}),
            "--data-parallel-shares 3,2,1 are 3 shares for 2 data ranks; give one "
            "share for each data rank");
  EXPECT_EQ(refusal(6, {3, 0}),
            "--data-parallel-shares 3,0: each share has to be a whole number >= 1, not "
            "0");
  EXPECT_EQ(refusal(6, {3, 1}),
            "6 micro-batches of a step do not divide by the 4 shares of "
            "--data-parallel-shares 3,1: --global-batch-size has to be a "
            "multiple of 4 x --micro-batch-size");
}

Model two_blocks() {
  return Model([](Graph& g) {
    Value x = g.input("x", {2, 4});
    for (int b = 0; b < 4; ++b) x = g.block("block", b, [&] { return linear(x, "up", 4); });
    return squared_error(x, g.input("y", {2, 4}));
  });
}

TrainingSpec spec_of(const MeshShape& mesh, const DataShares& shares) {
  TrainingSpec spec;
  spec.mesh = mesh;
  spec.micro_batch_size = 2;
  spec.global_batch_size = 16;
  spec.data_parallel_shares = shares;
  return spec;
}

TEST(MicroBatches, OfARankAreItsProgramItsRowsAndItsMemory) {
  const TrainingSpec spec = spec_of({3, 2, 1}, {2, 1, 1});
  const auto plan = [&](int data) {
    return PlannedTraining(two_blocks(), spec, spec.mesh.rank_at({{Axis::data, data}}),
                           cpu_traits());
  };
  const PlannedTraining large = plan(0), small = plan(2);
  EXPECT_EQ(large.train.program().shape.micro_batches, 4);
  EXPECT_EQ(large.evaluate.program().shape.micro_batches, 4);
  EXPECT_EQ(large.train_inputs.first_row, 0);
  EXPECT_EQ(small.train.program().shape.micro_batches, 2);
  EXPECT_EQ(small.train_inputs.first_row, 12);
  EXPECT_EQ(small.train_inputs.micro_batches, 2);
  EXPECT_EQ(large.memory_need().inputs, 2 * small.memory_need().inputs);
}

/// The first chunk is the last to end, except with two micro-batches.
WorkOrder other_with_two(const PipelineShape& shape, int /*stage*/) {
  WorkOrder order;
  for (int c = 0; c < shape.chunks; ++c)
    for (Index i = 0; i < shape.micro_batches; ++i) order.push_back({WorkKind::forward, c, i});
  for (const WorkKind kind : {WorkKind::backward_input, WorkKind::backward_weight})
    for (int k = 0; k < shape.chunks; ++k)
      for (Index i = 0; i < shape.micro_batches; ++i) {
        const bool turned = kind == WorkKind::backward_weight && shape.micro_batches == 2;
        order.push_back({kind, turned ? k : shape.chunks - 1 - k, i});
      }
  return order;
}

TEST(MicroBatches, OfUnequalNumbersNeedOneOrderOfSums) {
  TrainingSpec spec = spec_of({2, 2, 1}, {3, 1});
  spec.chunks = 2;
  spec.own_schedule = other_with_two;
  const auto refusal = [&] {
    return message_of([&] { PlannedTraining(two_blocks(), spec, 0, cpu_traits()); });
  };
  EXPECT_THAT(refusal(), AllOf(HasSubstr("--data-parallel-shares 3,1: stage 0"),
                               HasSubstr("in the order b a with 6 micro-batches and a b with 2"),
                               HasSubstr("use equal shares")));
  spec.data_parallel_shares = {1, 1};
  EXPECT_EQ(refusal(), "");
}

TEST(MicroBatches, OfTheBuiltInSchedulesEndTheirChunksInOneOrder) {
  for (const ScheduleKind kind : all_schedules())
    for (const int stages : {1, 2, 3, 4})
      for (const int chunks : {1, 2, 3}) {
        if (!schedule_problem(kind, {stages, chunks, 1}).empty()) continue;
        TrainingSpec spec;
        spec.mesh = MeshShape(8, stages, 1);
        spec.chunks = chunks;
        spec.schedule = kind;
        spec.data_parallel_shares = {1, 2, 3, 4, 5, 6, 7, 8};
        spec.global_batch_size = 36;
        for (int stage = 0; stage < stages; ++stage)
          check_reduction_order({spec, spec.mesh.rank_at({{Axis::pipeline, stage}}), cpu_traits()});
      }
}

}  // namespace
}  // namespace trireme
