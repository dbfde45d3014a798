// A schedule of a program's own: what may not be is one sentence with the stage, the work, and what
// would be right.
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/pipeline/program.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

Work F(Index i, int chunk = 0) { return {WorkKind::forward, chunk, i}; }
Work B(Index i, int chunk = 0) { return {WorkKind::backward, chunk, i}; }
Work I(Index i, int chunk = 0) { return {WorkKind::backward_input, chunk, i}; }
Work W(Index i, int chunk = 0) { return {WorkKind::backward_weight, chunk, i}; }

StageProgram program_of(const std::vector<WorkOrder>& orders, int chunks, Index micro_batches) {
  const auto schedule = [&](const PipelineShape&, int stage) {
    return orders.at(static_cast<std::size_t>(stage));
  };
  return make_program(ScheduleFunction(schedule),
                      {static_cast<int>(orders.size()), chunks, micro_batches}, 0);
}

TEST(OwnSchedule, GivesTheProgramOfTheSameOrders) {
  const PipelineShape shape{3, 1, 4};
  const ScheduleFunction own = [](const PipelineShape& s, int stage) {
    return work_order(ScheduleKind::one_f_one_b, s, stage);
  };
  for (int stage = 0; stage < 3; ++stage) {
    const StageProgram program = make_program(own, shape, stage);
    EXPECT_EQ(describe(program), describe(make_program(ScheduleKind::one_f_one_b, shape, stage)));
    EXPECT_FALSE(program.splits_backward(0));
  }
}

TEST(OwnSchedule, MaySplitItsBackwards) {
  EXPECT_TRUE(program_of({{F(0), F(1), I(0), I(1), W(0), W(1)}, {F(0), B(0), F(1), B(1)}}, 1, 2)
                  .splits_backward(0));
}

TEST(OwnSchedule, IsRefusedWithTheStageTheWorkAndWhatWouldBeRight) {
  const WorkOrder good = {F(0), F(1), B(0), B(1)};
  const struct {
    WorkOrder order;  // of stage 1
    const char* message;
  } faults[] = {
      {{F(0), F(1), B(0)},
       "stage 1 lacks B1: each chunk runs forward and backward of all 2 micro-batches"},
      {{F(0), B(0)},
       "stage 1 lacks F1: each chunk runs forward and backward of all 2 micro-batches"},
      {{F(0), F(1), I(0), I(1), W(0)},
       "stage 1 lacks W1: each chunk runs forward and backward of all 2 micro-batches"},
      {{F(0), F(1), B(0), B(1), B(1)},
       "stage 1, work 4: B1 is out of turn: chunk 0 has run B1, its last, already: each runs once"},
      {{F(0), F(1), F(2), B(0), B(1)},
       "stage 1, work 2: F2 is out of turn: chunk 0 has run F1, its last, already: each runs once"},
      {{B(0), F(0), F(1), B(1)}, "stage 1, work 0: B0 is out of turn: F0 has to come before it"},
      {{F(0), F(1), I(0), W(0), W(1), I(1)},
       "stage 1, work 4: W1 is out of turn: I1 has to come before it"},
      {{F(0), F(1), B(1), B(0)},
       "stage 1, work 2: B1 is out of turn: it has to be B0: a chunk takes its micro-batches from "
       "0 to 1, each once"},
      {{F(0), F(1), I(0), B(1), W(0)},
       "stage 1, work 3: B1 is out of turn: it has to be W0: the weight gradients of micro-batch 0 "
       "are due"},
      {{F(0), F(1), I(0), I(1), B(1)},
       "stage 1, work 4: B1 is out of turn: it has to be W0: the weight gradients of micro-batch 0 "
       "are due"},
      {{F(0), F(1, 3), B(0), B(1)},
       "stage 1, work 1: chunk 3 of 1; chunks are numbered from 0 to 0"},
  };
  for (const auto& [order, message] : faults)
    EXPECT_EQ(message_of([&, o = order] { program_of({good, o}, 1, 2); }), message);
}

TEST(OwnSchedule, OfAStageThatIsNotThereIsRefused) {
  EXPECT_EQ(message_of([] {
              work_order(ScheduleKind::one_f_one_b, {2, 1, 2}, 5);
            }),
            "stage 5 of 2; stages are numbered from 0 to 1");
}

TEST(OwnSchedule, WithoutAnyBackwardIsRefused) {
  EXPECT_EQ(message_of([] {
              program_of({{F(0)}, {F(0)}}, 1, 1);
            }),
            "stage 0 lacks B0: a schedule has a backward after each forward");
}

TEST(OwnSchedule, WhoseStagesWaitForEachOtherIsRefused) {
  // Stage 0 wants the gradient of micro-batch 0 before it has sent micro-batch 1, stage 1 both.
  EXPECT_EQ(message_of([] {
              program_of({{F(0), B(0), F(1), B(1)}, {F(0), F(1), B(0), B(1)}}, 1, 2);
            }),
            "the work orders of 2 stages x 1 chunks x 2 micro-batches wait for each other: stage 0 "
            "at B0, which needs B0 of stage 1; stage 1 at F1, which needs F1 of stage 0");
}

}  // namespace
}  // namespace trireme
