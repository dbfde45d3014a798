// The pipeline executor gives the bits of one stage under every schedule and transport.
#include "runtime/pipeline/executor.h"

#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/pipeline/toy_pipeline.h"

namespace trireme {
namespace {

using test::RankResult;

struct Case {
  int stages = 1, chunks = 1;
  int micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::uint64_t hostile_seed = 0;
  int extra_slots = 0;
};
constexpr int steps = 2;

// All ranks as threads; their results added up.
RankResult run_programs(const std::vector<StageProgram>& programs, std::uint64_t hostile_seed,
                        PlanOptions plan = {.poison = true}) {
  RankResult all;
  std::mutex mutex;
  run_on_threads(MeshShape(1, static_cast<int>(programs.size()), 1),
                 [&](Mesh& mesh) {
                   const RankResult mine = test::run_rank(
                       mesh, programs[static_cast<std::size_t>(mesh.rank())], plan, steps);
                   const std::lock_guard lock(mutex);
                   all.loss += mine.loss;
                   all.results.insert(all.results.end(), mine.results.begin(), mine.results.end());
                   for (const auto& [p, gradient] : mine.gradients) {
                     auto& total = all.gradients[p];
                     total.resize(gradient.size());
                     for (std::size_t k = 0; k < total.size(); ++k) total[k] += gradient[k];
                     all.ready[p] += mine.ready.at(p);
                   }
                 },
                 {.hostile_seed = hostile_seed});
  return all;
}

RankResult run(const Case& c) {
  const PipelineShape shape{c.stages, c.chunks, c.micro_batches, route_of(c.schedule)};
  return run_programs(
      make_programs(work_orders(c.schedule, shape), shape, {.extra_slots = c.extra_slots}),
      c.hostile_seed);
}

// The loss and all gradients, bit for bit; the order of the sum over the holders of the table
// differs.
void expect_same(const RankResult& got, const RankResult& expected) {
  EXPECT_EQ(got.loss, expected.loss);
  EXPECT_EQ(got.results, expected.results);
  ASSERT_EQ(got.gradients.size(), expected.gradients.size());
  for (const auto& [p, gradient] : expected.gradients) {
    const std::vector<float>& mine = got.gradients.at(p);
    if (p != test::shared_parameter) {
      EXPECT_EQ(mine, gradient) << "parameter " << p;
    } else {
      for (std::size_t k = 0; k < gradient.size(); ++k) EXPECT_NEAR(mine[k], gradient[k], 1e-5);
    }
  }
}

TEST(PipelineExecutor, OneStageIsTheGraphRunMicroBatchByMicroBatch) {
  Graph g;
  const Value loss = test::model(g);
  const test::RunResult reference = test::run(g, loss, {.micro_batches = 4, .slots = 1});
  const RankResult result = test::run_one_stage(4, 1);
  double sum = 0;
  for (const double l : reference.losses) sum += l;
  EXPECT_GT(std::abs(sum), 0.1);
  EXPECT_EQ(result.loss, sum);
  EXPECT_EQ(result.results, reference.losses);
  for (const auto& [p, gradient] : result.gradients)
    EXPECT_EQ(gradient, reference.gradients.at(static_cast<std::size_t>(p)));
}

TEST(PipelineExecutor, EveryScheduleAgreesWithOneStageBitForBit) {
  for (const int micro_batches : {1, 3, 8}) {
    const RankResult expected = test::run_one_stage(micro_batches, steps);
    for (const ScheduleKind schedule : all_schedules())
      for (const int stages : {1, 2, 3, 4})
        for (const int chunks : {1, 2}) {
          const PipelineShape shape{stages, chunks, micro_batches, route_of(schedule)};
          if (!schedule_problem(schedule, shape).empty()) continue;
          SCOPED_TRACE(str(name(schedule), ", ", shape));
          expect_same(run({stages, chunks, micro_batches, schedule}), expected);
        }
  }
}

TEST(PipelineExecutor, AHostileTransportChangesNothing) {
  for (const Case& c :
       {Case{4, 1, 6, ScheduleKind::one_f_one_b}, Case{3, 1, 5, ScheduleKind::gpipe},
        Case{2, 4, 5, ScheduleKind::interleaved}, Case{3, 2, 7, ScheduleKind::interleaved},
        Case{4, 1, 6, ScheduleKind::zero_bubble}, Case{3, 2, 7, ScheduleKind::zero_bubble_v}}) {
    const RankResult expected = test::run_one_stage(c.micro_batches, steps);
    for (const int extra_slots : {0, 1}) {
      Case hostile = c;
      hostile.hostile_seed = static_cast<std::uint64_t>(1 + extra_slots);
      hostile.extra_slots = extra_slots;
      SCOPED_TRACE(str(name(c.schedule), " extra slots ", extra_slots));
      expect_same(run(hostile), expected);
    }
  }
}

TEST(PipelineExecutor, SplitBackwardsAgreeWithWholeOnes) {
  const auto F = [](Index i) { return Work{WorkKind::forward, 0, i}; };
  const auto I = [](Index i) { return Work{WorkKind::backward_input, 0, i}; };
  const auto W = [](Index i) { return Work{WorkKind::backward_weight, 0, i}; };
  const std::vector<StageProgram> programs =
      make_programs({{F(0), F(1), I(0), F(2), I(1), W(0), I(2), W(1), W(2)},
                     {F(0), I(0), F(1), I(1), F(2), I(2), W(0), W(1), W(2)}},
                    {2, 1, 3});
  const RankResult result = run_programs(programs, 7);
  expect_same(result, test::run_one_stage(3, steps));
  for (const auto& [p, count] : result.ready)
    EXPECT_EQ(count, p == test::shared_parameter ? 2 * steps : steps);
}

TEST(PipelineExecutor, ForwardOnlyGivesTheSameLosses) {
  const RankResult expected = test::run_one_stage(8, steps);
  for (const auto& [stages, chunks] : {std::pair{1, 1}, {1, 3}, {3, 1}, {2, 4}, {4, 2}})
    for (const int extra_slots : {0, 1}) {
      for (const Route route : {Route::ring, Route::v}) {
        const PipelineShape shape{stages, chunks, 8, route};
        const RankResult result =
            run_programs(make_programs(forward_orders(shape), shape, {.extra_slots = extra_slots}),
                         5, {.mode = PlanOptions::Mode::forward_only, .poison = true});
        EXPECT_EQ(result.loss, expected.loss) << shape;
        EXPECT_EQ(result.results, expected.results) << shape;
      }
    }
}

TEST(PipelineExecutor, GradientsAreCompleteOnceAStep) {
  for (const Case& c :
       {Case{1, 1, 3}, Case{4, 1, 6}, Case{2, 2, 4, ScheduleKind::interleaved},
        Case{3, 1, 5, ScheduleKind::zero_bubble}, Case{3, 2, 5, ScheduleKind::zero_bubble_v}}) {
    const int holders = c.stages * c.chunks > 1 ? 2 : 1;  // of the table
    for (const auto& [p, count] : run(c).ready)
      EXPECT_EQ(count, p == test::shared_parameter ? holders * steps : steps);
  }
}

TEST(PipelineExecutor, ALossThatBackwardMakesIsRefusedWhereThereIsNone) {
  const auto mesh = make_self_mesh();
  Graph g;
  const Value loss = test::model(g, test::LossMade::in_backward);
  test::Stage stage(g, {loss}, cut_stages(g, {loss}, 1), 0, {}, test::initial_parameters(g), *mesh);
  try {
    PipelineExecutor(make_forward_program({1, 1, 2}, 0), {{&stage.plan, stage.executor.get()}},
                     mesh->axis(Axis::pipeline), stage.stream);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs a forward-only plan"), std::string::npos);
  }
}

TEST(PipelineExecutor, WhatDoesNotFitTogetherIsNamed) {
  const auto message = [](StageProgram program, std::size_t chunks) {
    const auto mesh = make_self_mesh();
    Graph g;
    const Value loss = test::model(g);
    const StageCut cut = cut_stages(g, {loss}, 2);
    test::Stage stage(g, {loss}, cut, 0, {}, test::initial_parameters(g), *mesh);
    const std::vector<PipelineChunk> same(chunks, {&stage.plan, stage.executor.get()});
    try {
      PipelineExecutor(std::move(program), same, mesh->axis(Axis::pipeline), stage.stream);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(make_program(ScheduleKind::gpipe, {2, 1, 1}, 1), 1),
            "the program of stage 1 of 2 was given to rank 0 of 1 of the axis 'pipeline'");
  EXPECT_EQ(message(make_program(ScheduleKind::gpipe, {1, 2, 1}, 0), 1),
            "the program has 2 chunks, but there are 1 executors");
  EXPECT_EQ(message(make_program(ScheduleKind::gpipe, {1, 2, 1}, 0), 2),
            "chunk 1 is virtual stage 1 of 2; its plan is for 0 of 2");
}

}  // namespace
}  // namespace trireme
