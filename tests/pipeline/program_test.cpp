// Programs of stages: their transfers, waits and slots, and the check that finds a wrong one.
#include "runtime/pipeline/program.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/pipeline/simulate.h"
#include "tests/pipeline/every_shape.h"
#include "tests/pipeline/memory_checker.h"

namespace trireme::pipeline {
namespace {

TEST(Program, NeverTouchesWhatIsInTransfer) {
  for (const int extra_slots : {0, 1})
    for_every_shape([&](ScheduleKind kind, const PipelineShape& shape) {
      for (const StageProgram& program :
           make_programs(work_orders(kind, shape), shape, {.extra_slots = extra_slots}))
        ASSERT_EQ(MemoryChecker(program).run(), "") << name(kind) << " " << shape;
      for (const StageProgram& program :
           make_programs(forward_orders(shape), shape, {.extra_slots = extra_slots}))
        ASSERT_EQ(MemoryChecker(program).run(), "") << "forward only " << shape;
    });
}

// A planted fault in any exchange is seen: by messages that do not match, by a hang, or by memory
// touched in transfer.
TEST(Program, ExchangesInAnotherOrderAreFound) {
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
    const std::vector<StageProgram> good = make_programs(work_orders(kind, {3, 1, 4}), {3, 1, 4});
    for (std::size_t stage = 0; stage < good.size(); ++stage)
      for (std::size_t i = 0; i + 1 < good[stage].exchanges.size(); ++i) {
        std::vector<StageProgram> programs = good;
        std::swap(programs[stage].exchanges[i], programs[stage].exchanges[i + 1]);
        EXPECT_TRUE(!simulate(programs).completed || MemoryChecker(programs[stage]).run() != "")
            << name(kind) << " stage " << stage << " exchange " << i;
      }
  }
}

TEST(Program, AMissingWaitIsFound) {
  for (const StageProgram& good :
       make_programs(work_orders(ScheduleKind::one_f_one_b, {3, 1, 4}), {3, 1, 4}))
    for (std::size_t i = 0; i < good.actions.size(); ++i) {
      if (good.actions[i].kind != Action::Kind::wait) continue;
      StageProgram program = good;
      program.actions.erase(program.actions.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_NE(MemoryChecker(program).run(), "") << "stage " << good.stage << " action " << i;
    }
}

TEST(Program, MarksTheLastBackwardOfEachChunk) {
  for_every_shape([](ScheduleKind kind, const PipelineShape& shape) {
    for (const StageProgram& program : make_programs(work_orders(kind, shape), shape)) {
      std::map<int, const Action*> last;
      std::set<const Action*> marked;
      for (const Action& action : program.actions) {
        if (action.kind != Action::Kind::work) continue;
        if (action.work.kind != WorkKind::forward) last[action.work.chunk] = &action;
        if (action.last) marked.insert(&action);
      }
      std::set<const Action*> expected;
      for (const auto& [chunk, action] : last) expected.insert(action);
      EXPECT_EQ(marked, expected) << shape;
    }
  });
}

TEST(Program, HasTheSlotsOfItsOrder) {
  for_every_shape([](ScheduleKind kind, const PipelineShape& shape) {
    for (const StageProgram& program : make_programs(work_orders(kind, shape), shape))
      ASSERT_EQ(slots_of(work_order(kind, shape, program.stage), shape.chunks), program.slots)
          << name(kind) << " " << shape << " stage " << program.stage;
  });
}

TEST(Program, AnExtraSlotReceivesEarlier) {
  const PipelineShape shape{2, 1, 4};
  // The last stage has one micro-batch in flight. With one slot, micro-batch 1 can come only after
  // B0 (time slot 2); with two it comes as soon as stage 0 has made it (time 2).
  const auto round_of = [&](int extra_slots) {
    const StageProgram program =
        make_program(ScheduleKind::one_f_one_b, shape, 1, {.extra_slots = extra_slots});
    for (const Exchange& exchange : program.exchanges)
      for (const Hop& hop : exchange.receives)
        if (hop.micro_batch == 1) return exchange.round;
    return Index{-1};
  };
  EXPECT_EQ(round_of(0), 4);
  EXPECT_EQ(round_of(1), 2);
}

TEST(Program, OneStageCopiesBetweenItsChunks) {
  const StageProgram program = make_program(ScheduleKind::interleaved, {1, 3, 2}, 0);
  std::size_t copies = 0;
  for (const Exchange& exchange : program.exchanges) {
    EXPECT_TRUE(exchange.sends.empty());
    EXPECT_TRUE(exchange.receives.empty());
    copies += exchange.copies.size();
  }
  EXPECT_EQ(copies, 2u * 2u * 2u);  // values and gradients, two cuts, two micro-batches
}

TEST(Program, SplitBackwardsKeepTheirSlotUntilTheParameterPart) {
  const PipelineShape shape{2, 1, 2};
  const auto F = [](Index i) { return Work{WorkKind::forward, 0, i}; };
  const auto I = [](Index i) { return Work{WorkKind::backward_input, 0, i}; };
  const auto W = [](Index i) { return Work{WorkKind::backward_weight, 0, i}; };
  const std::vector<StageProgram> programs = make_programs(
      {{F(0), F(1), I(0), I(1), W(0), W(1)}, {F(0), I(0), F(1), I(1), W(0), W(1)}}, shape);
  EXPECT_EQ(programs[1].slots.at(0), 2);
  for (const StageProgram& program : programs) EXPECT_EQ(MemoryChecker(program).run(), "");
}

TEST(Program, IsPrinted) {
  EXPECT_EQ(describe(make_program(ScheduleKind::one_f_one_b, {2, 1, 2}, 1)),
            "  start round 1: receive values 0 of chunk 0 from stage 0 (slot 0)\n"
            "  wait for round 1\n"
            "F0 slot 0\n"
            "B0 slot 0\n"
            "  start round 4: send gradients 0 of chunk 0 to stage 0 (slot 0); receive values 1 of "
            "chunk 0 "
            "from stage 0 (slot 0)\n"
            "  wait for round 4\n"
            "F1 slot 0\n"
            "B1 slot 0, last\n"
            "  start round 7: send gradients 1 of chunk 0 to stage 0 (slot 0)\n"
            "  wait for round 7\n");
}

}  // namespace
}  // namespace trireme::pipeline
