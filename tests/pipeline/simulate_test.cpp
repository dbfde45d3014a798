// Simulation of schedules: completion with waiting sends, bubbles, and orders that hang.
#include "runtime/pipeline/simulate.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/pipeline/every_shape.h"

namespace trireme::pipeline {
namespace {

using StageCosts = std::vector<std::vector<Costs>>;  // of each chunk of each stage

constexpr Costs backward_twice_forward{1, 1, 1, 0};

Simulation run(ScheduleKind kind, const PipelineShape& shape, int extra_slots = 0) {
  return simulate(make_programs(work_orders(kind, shape), shape, {.extra_slots = extra_slots}),
                  backward_twice_forward);
}

TEST(Simulation, EveryScheduleCompletesWithWaitingSends) {
  for (const int extra_slots : {0, 1})
    for_every_shape([&](ScheduleKind kind, const PipelineShape& shape) {
      const Simulation result = run(kind, shape, extra_slots);
      ASSERT_TRUE(result.completed) << name(kind) << " " << shape << ": " << result.problem;
    });
}

TEST(Simulation, ForwardOnlyCompletesWithWaitingSends) {
  for (const int extra_slots : {0, 1})
    for_every_shape([&](ScheduleKind, const PipelineShape& shape) {
      const Simulation result =
          simulate(make_programs(forward_orders(shape), shape, {.extra_slots = extra_slots}));
      ASSERT_TRUE(result.completed) << shape << ": " << result.problem;
    });
}

// Exactly, or little more where micro-batches are left over that make no whole round of the ring.
TEST(Simulation, TheBubbleIsTheTheoreticalOne) {
  for_every_shape([](ScheduleKind kind, const PipelineShape& shape) {
    const double bubble = run(kind, shape).bubble(), ideal = ideal_bubble(kind, shape);
    const bool exact = shape.chunks == 1 || kind == ScheduleKind::zero_bubble_v ||
                       shape.micro_batches % shape.stages == 0 ||
                       (kind == ScheduleKind::gpipe && shape.micro_batches >= shape.stages);
    EXPECT_GE(bubble, ideal - 1e-9) << name(kind) << " " << shape;
    if (shape.micro_batches < shape.stages && !exact) return;
    EXPECT_LT(bubble, ideal + (exact ? 1e-9 : 0.07)) << name(kind) << " " << shape;
  });
}

// Forward 1 on stage 0 and 3 on stage 1, backward 6 and 2, messages 10 on their way.
TEST(Simulation, TakesTheCostsOfEachStage) {
  const PipelineShape shape{2, 1, 1};
  const auto programs = make_programs(work_orders(ScheduleKind::one_f_one_b, shape), shape);
  const Simulation result = simulate(programs, StageCosts{{{1, 2, 4, 10}}, {{3, 1, 1, 10}}});
  EXPECT_EQ(result.stages[1].front().begin, 11);
  EXPECT_EQ(result.stages[0].back().begin, 1 + 10 + 3 + 2 + 10);
  EXPECT_EQ(result.makespan, 32);
  EXPECT_EQ(result.ends, (std::vector<double>{32, 26}));
  EXPECT_EQ(result.transfer_waits, (std::vector<double>{10, 20})) << "stage 1 sends last";
  EXPECT_THROW(simulate(programs, StageCosts{{{1, 2, 4, 10}}}), Error);
}

// Three stages; only messages between the last two take time.
TEST(Simulation, TakesTheTimeOfEachMessage) {
  const PipelineShape shape{3, 1, 1};
  const auto programs = make_programs(work_orders(ScheduleKind::one_f_one_b, shape), shape);
  TransferCosts middle, last;
  middle.values_out = last.values_in = 10;
  middle.gradients_in = last.gradients_out = 20;
  const Simulation result =
      simulate(programs, StageCosts{{{1, 1, 1, 0}}, {{1, 1, 1, middle}}, {{1, 1, 1, last}}});
  EXPECT_EQ(result.stages[1].front().begin, 1);
  EXPECT_EQ(result.stages[2].front().begin, 12);
  EXPECT_EQ(result.stages[1].back().begin, 12 + 3 + 20);
  EXPECT_EQ(result.makespan, 12 + 3 + 20 + 4);
}

// The last stage hands gradients from one chunk to the other, whatever the slow first one is at.
TEST(Simulation, CopiesInsideAStageWaitForNoOther) {
  const PipelineShape shape{2, 2, 6, Route::v};
  const Costs fast, slow{1, 4, 6};
  const Simulation result =
      simulate(make_programs(work_orders(ScheduleKind::zero_bubble_v, shape), shape),
               {{fast, slow}, {fast, fast}});
  const auto last_input_gradient = [&](int chunk) {
    for (const TimedSpan& span : result.stages[1])
      if (span.work == Work{WorkKind::backward_input, chunk, 5}) return span;
    ADD_FAILURE() << "not run for chunk " << chunk;
    return TimedSpan{};
  };
  EXPECT_EQ(last_input_gradient(0).begin, last_input_gradient(1).end);
}

TEST(Simulation, AnOrderThatWaitsForItselfIsRejected) {
  const PipelineShape shape{2, 1, 2};
  std::vector<WorkOrder> orders = work_orders(ScheduleKind::one_f_one_b, shape);
  std::swap(orders[0][1], orders[0][2]);  // F0 B0 F1 B1 on stage 0 is slow but right
  EXPECT_TRUE(simulate(make_programs(orders, shape)).completed);
  const PipelineShape ring{2, 2, 2};
  orders = work_orders(ScheduleKind::interleaved, ring);
  // Stage 0 wants micro-batch 0 on chunk b before it has run it on chunk a for stage 1: a circle.
  std::rotate(orders[0].begin(), orders[0].begin() + 2, orders[0].begin() + 3);
  try {
    make_programs(orders, ring);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the work orders of 2 stages x 2 chunks x 2 micro-batches wait for each other: "
                 "stage 0 at F0b, which needs F0a of stage 1; stage 1 at F0a, which needs F0a of "
                 "stage 0");
  }
}

TEST(Simulation, AnIncompleteOrUnorderedOrderIsRejected) {
  const PipelineShape shape{1, 1, 3};
  const WorkOrder good = work_order(ScheduleKind::one_f_one_b, shape, 0);
  WorkOrder missing = good;
  missing.pop_back();
  EXPECT_THROW(make_programs({missing}, shape), Error);
  WorkOrder twice = good;
  twice.push_back(twice.back());
  EXPECT_THROW(make_programs({twice}, shape), Error);
  WorkOrder backward_first = good;
  std::swap(backward_first[0], backward_first[1]);
  EXPECT_THROW(make_programs({backward_first}, shape), Error);
}

// Both stages of a pair send before they receive, each in an exchange of its own: passes where
// sends are buffered (MPI, small messages), hangs where they wait (NCCL).
TEST(Simulation, SendsThatWaitForEachOtherAreFoundToHang) {
  const PipelineShape shape{2, 1, 4};
  std::vector<StageProgram> programs =
      make_programs(work_orders(ScheduleKind::one_f_one_b, shape), shape);
  for (StageProgram& program : programs) {
    std::vector<Exchange> split;
    std::vector<Action> actions;
    for (const Action& action : program.actions) {
      if (action.kind == Action::Kind::work) actions.push_back(action);
      if (action.kind != Action::Kind::start) continue;
      const Exchange& exchange = program.exchanges[static_cast<std::size_t>(action.exchange)];
      const auto alone = [&](Exchange part) {
        if (part.sends.empty() && part.receives.empty()) return;
        split.push_back(std::move(part));
        const int number = static_cast<int>(split.size()) - 1;
        actions.push_back({Action::Kind::start, {}, 0, false, number});
        actions.push_back({Action::Kind::wait, {}, 0, false, number});
      };
      alone({exchange.round, exchange.sends, {}, {}});
      alone({exchange.round, {}, exchange.receives, {}});
    }
    program.exchanges = std::move(split);
    program.actions = std::move(actions);
  }
  const Simulation result = simulate(programs);
  EXPECT_FALSE(result.completed);
  EXPECT_EQ(result.problem,
            "stage 0 waits for round 4 after F1; stage 1 waits for round 4 after B0; ");
}

TEST(Simulation, AMissingReceiveIsFoundToHang) {
  const PipelineShape shape{2, 1, 2};
  std::vector<StageProgram> programs =
      make_programs(work_orders(ScheduleKind::gpipe, shape), shape);
  programs[1].exchanges[0].receives.clear();
  EXPECT_FALSE(simulate(programs).completed);
}

TEST(Simulation, IsDrawn) {
  EXPECT_EQ(draw(run(ScheduleKind::one_f_one_b, {2, 1, 3}), 1),
            "stage 0  F0 F1 .  .  B0=== F2 B1=== .  B2===\n"
            "stage 1  .  F0 B0=== F1 B1=== F2 B2=== .  .\n");
}

// docs/concepts/schedules.md shows what the printer draws.
TEST(Simulation, TheDocumentationIsDrawnByIt) {
  std::ifstream file(TRIREME_SOURCE_DIR "/docs/concepts/schedules.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& drawing :
       {draw(run(ScheduleKind::gpipe, {4, 1, 8}), 1),
        draw(run(ScheduleKind::one_f_one_b, {4, 1, 8}), 1),
        draw(run(ScheduleKind::interleaved, {2, 2, 4}), 2),
        draw(run(ScheduleKind::zero_bubble, {4, 1, 8}), 1),
        draw(run(ScheduleKind::zero_bubble_v, {2, 2, 4, Route::v}), 2)})
    EXPECT_NE(text.find(drawing), std::string::npos) << drawing;
}

}  // namespace
}  // namespace trireme::pipeline
