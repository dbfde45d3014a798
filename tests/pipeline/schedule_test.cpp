// The order of work of each schedule, and the shapes that it refuses.
#include "trireme/pipeline/schedule.h"

#include <map>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/pipeline/program.h"
#include "runtime/pipeline/simulate.h"
#include "tests/pipeline/every_shape.h"

namespace trireme::pipeline {
namespace {

TEST(Schedule, RunsEveryMicroBatchForwardThenBackwardOnceOnEveryChunk) {
  for_every_shape([](ScheduleKind kind, const PipelineShape& shape) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::vector<std::vector<int>> seen(
          static_cast<std::size_t>(shape.chunks),
          std::vector<int>(static_cast<std::size_t>(shape.micro_batches)));
      for (const Work& work : work_order(kind, shape, stage)) {
        int& count =
            seen[static_cast<std::size_t>(work.chunk)][static_cast<std::size_t>(work.micro_batch)];
        const bool second_half = work.kind == WorkKind::backward_weight;
        EXPECT_EQ(count, work.kind == WorkKind::forward ? 0
                         : second_half                  ? 2
                                                        : 1)
            << describe(work, shape.chunks);
        count += work.kind == WorkKind::backward ? 2 : 1;
      }
      for (const auto& chunk : seen)
        for (const int count : chunk) EXPECT_EQ(count, 3) << shape;
    }
  });
}

// One order of summation per parameter gradient, whatever the schedule: needed for bitwise equal
// schedules.
TEST(Schedule, RunsMicroBatchesOfAChunkInIncreasingOrder) {
  for_every_shape([](ScheduleKind kind, const PipelineShape& shape) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::map<std::pair<WorkKind, int>, Index> next;
      for (const Work& work : work_order(kind, shape, stage))
        EXPECT_EQ(work.micro_batch, (next[{work.kind, work.chunk}]++)) << shape;
    }
  });
}

TEST(Schedule, OneForwardOneBackwardIsWarmUpSteadyCoolDown) {
  const auto text = [](const WorkOrder& order) {
    std::string all;
    for (const Work& work : order) all += describe(work, 1) + " ";
    return all;
  };
  const PipelineShape shape{3, 1, 4};
  EXPECT_EQ(text(work_order(ScheduleKind::one_f_one_b, shape, 0)), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(text(work_order(ScheduleKind::one_f_one_b, shape, 1)), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(text(work_order(ScheduleKind::one_f_one_b, shape, 2)), "F0 B0 F1 B1 F2 B2 F3 B3 ");
}

TEST(Schedule, ZeroBubbleDelaysWeightGradientsByAMicroBatchAStage) {
  const auto text = [](int stage) {
    std::string all;
    for (const Work& work : work_order(ScheduleKind::zero_bubble, {3, 1, 4}, stage))
      all += describe(work, 1) + " ";
    return all;
  };
  EXPECT_EQ(text(0), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(text(1), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 ");
  EXPECT_EQ(text(2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 ");
}

TEST(Schedule, ZeroBubbleVGoesUpAndDown) {
  const PipelineShape shape{3, 2, 5, Route::v};
  const auto text = [&](int stage) {
    std::string all;
    for (const Work& work : work_order(ScheduleKind::zero_bubble_v, shape, stage))
      all += describe(work, 2) + " ";
    return all;
  };
  EXPECT_EQ(text(0),
            "F0a F1a F2a F3a F4a F0b I0b W0b F1b I1b W1b F2b I2b W2b "
            "B0a F3b I3b W3b B1a F4b I4b W4b B2a B3a B4a ");
  EXPECT_EQ(text(2),
            "F0a F0b F1a F1b F2a F2b I0b W0b I0a W0a F3a F3b I1b W1b I1a W1a F4a F4b I2b W2b "
            "I2a I3b I3a I4b I4a W2a W3b W4b W3a W4a ");
  EXPECT_EQ(shape.virtual_stage(0, 1), 5);
  EXPECT_EQ(shape.stage_of(3), 2);
  EXPECT_EQ(shape.last_stage(), 0);
  EXPECT_EQ((PipelineShape{3, 2, 5}.last_stage()), 2);
}

// Each stage has as many bytes of slots as the first one of 1f1b: its chunks are half as large.
TEST(Schedule, ZeroBubbleVHasTheSlotsOf1F1B) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_EQ(make_program(ScheduleKind::zero_bubble_v, {stages, 2, 32, Route::v}, stage).slots,
                (std::vector<int>{2 * stages - 1 - stage, stage + 1}));
}

// Figure 4 of arXiv:2104.04473: four devices, two chunks each, eight micro-batches; device 1.
TEST(Schedule, InterleavedMatchesThePaper) {
  std::string all;
  for (const Work& work : work_order(ScheduleKind::interleaved, {4, 2, 8}, 0))
    all += describe(work, 2) + " ";
  EXPECT_EQ(all,
            "F0a F1a F2a F3a F0b F1b F2b F3b F4a F5a "
            "F6a B0b F7a B1b F4b B2b F5b B3b F6b B0a F7b B1a "
            "B2a B3a B4b B5b B6b B7b B4a B5a B6a B7a ");
}

TEST(Schedule, SlotsAreTheMicroBatchesInFlight) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int stage = 0; stage < stages; ++stage) {
      const PipelineShape shape{stages, 1, 16};
      EXPECT_EQ(make_program(ScheduleKind::gpipe, shape, stage).slots.at(0), 16);
      EXPECT_EQ(make_program(ScheduleKind::one_f_one_b, shape, stage).slots.at(0), stages - stage);
      EXPECT_EQ(make_program(ScheduleKind::interleaved, shape, stage).slots.at(0), stages - stage);
      EXPECT_EQ(make_program(ScheduleKind::zero_bubble, shape, stage).slots.at(0), stages);
      EXPECT_EQ(
          make_program(ScheduleKind::one_f_one_b, shape, stage, {.extra_slots = 1}).slots.at(0),
          stages - stage + 1);
      EXPECT_EQ(make_forward_program(shape, stage).slots.at(0), 1);
    }
}

TEST(Schedule, NamesRoundTripAndMistakesListWhatThereIs) {
  for (const ScheduleKind kind : all_schedules()) EXPECT_EQ(schedule_from_name(name(kind)), kind);
  try {
    schedule_from_name("1f2b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "no schedule is called '1f2b'; there are: gpipe, 1f1b, interleaved, zero-bubble, "
                 "zero-bubble-v");
  }
}

TEST(Schedule, ShapesThatItCannotRunAreNamed) {
  EXPECT_EQ(schedule_problem(ScheduleKind::one_f_one_b, {4, 1, 3}), "");
  EXPECT_EQ(schedule_problem(ScheduleKind::one_f_one_b, {4, 2, 8}),
            "1f1b runs one chunk a stage, not 2; use 1 chunk, or the schedule 'interleaved'");
  EXPECT_EQ(schedule_problem(ScheduleKind::zero_bubble, {4, 1, 3}), "");
  EXPECT_EQ(schedule_problem(ScheduleKind::zero_bubble, {4, 2, 8}),
            "zero-bubble runs one chunk a stage, not 2; use 1 chunk, or the schedule "
            "'interleaved'");
  EXPECT_EQ(schedule_problem(ScheduleKind::zero_bubble_v, {4, 2, 1, Route::v}), "");
  EXPECT_EQ(schedule_problem(ScheduleKind::zero_bubble_v, {4, 1, 8, Route::v}),
            "zero-bubble-v runs two chunks a stage, not 1; use 2 chunks, or the schedule "
            "'zero-bubble'");
  EXPECT_EQ(schedule_problem(ScheduleKind::zero_bubble_v, {4, 3, 8, Route::v}),
            "zero-bubble-v runs two chunks a stage, not 3; use 2 chunks, or the schedule "
            "'interleaved'");
  EXPECT_NE(schedule_problem(ScheduleKind::zero_bubble_v, {4, 2, 8}), "");
  EXPECT_NE(schedule_problem(ScheduleKind::interleaved, {4, 2, 8, Route::v}), "");
  EXPECT_NE(schedule_problem(ScheduleKind::gpipe, {0, 1, 1}), "");
  EXPECT_NE(schedule_problem(ScheduleKind::gpipe, {1, 1, 0}), "");
  EXPECT_THROW(work_order(ScheduleKind::one_f_one_b, {4, 2, 8}, 0), Error);
  EXPECT_THROW(work_order(ScheduleKind::gpipe, {4, 1, 8}, 4), Error);
}

}  // namespace
}  // namespace trireme::pipeline
