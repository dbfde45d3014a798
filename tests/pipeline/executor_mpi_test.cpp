// The pipeline over processes: as many stages as ranks, against one stage in this process.
#include <gtest/gtest.h>

#include "tests/pipeline/toy_pipeline.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/mpi_ranks.h"

namespace trireme {
namespace {

constexpr int steps = 2;
constexpr Index micro_batches = 7;

// What this rank holds, bit for bit. The table is a sum over two ranks: executor_test looks at
// that.
void expect_part_of(const test::RankResult& mine, const test::RankResult& whole, bool last) {
  EXPECT_EQ(mine.loss, last ? whole.loss : 0);
  EXPECT_EQ(mine.results, last ? whole.results : std::vector<double>{});
  for (const auto& [p, gradient] : mine.gradients) {
    if (p == test::shared_parameter) continue;
    EXPECT_EQ(gradient, whole.gradients.at(p)) << p;
  }
}

TEST(PipelineExecutorMpi, EveryScheduleAgreesWithOneStageBitForBit) {
  const test::RankResult whole = test::run_one_stage(micro_batches, steps);
  const int stages = mpi_session().size();
  const auto mesh = mpi_session().make_mesh(MeshShape(1, stages, 1));
  for (const ScheduleKind schedule : all_schedules())
    for (const int chunks : {1, 2})
      for (const int extra_slots : {0, 1}) {
        const PipelineShape shape{stages, chunks, micro_batches, route_of(schedule)};
        const bool last = mesh->rank() == shape.last_stage();
        if (shape.virtual_stages() > 8 || !schedule_problem(schedule, shape).empty()) continue;
        SCOPED_TRACE(str(name(schedule), ", ", shape, ", extra slots ", extra_slots));
        const StageProgram program = make_program(schedule, shape, mesh->rank(), {extra_slots});
        expect_part_of(test::run_rank(*mesh, program, {.poison = true}, steps), whole, last);
      }
}

TEST(PipelineExecutorMpi, ForwardOnlyGivesTheSameLosses) {
  const test::RankResult whole = test::run_one_stage(micro_batches, steps);
  const int stages = mpi_session().size();
  const auto mesh = mpi_session().make_mesh(MeshShape(1, stages, 1));
  const StageProgram program = make_forward_program({stages, 1, micro_batches}, mesh->rank());
  const test::RankResult mine =
      test::run_rank(*mesh, program, {.mode = PlanOptions::Mode::forward_only}, steps);
  const bool last = mesh->rank() == stages - 1;
  EXPECT_EQ(mine.loss, last ? whole.loss : 0);
  EXPECT_EQ(mine.results, last ? whole.results : std::vector<double>{});
}

TEST(PipelineExecutorMpi, AllocatesNothingAfterTheFirstStep) {
  const int stages = mpi_session().size();
  const auto mesh = mpi_session().make_mesh(MeshShape(1, stages, 1));
  const int chunks = 8 / stages >= 2 ? 2 : 1;
  const StageProgram program =
      make_program(ScheduleKind::interleaved, {stages, chunks, micro_batches}, mesh->rank());
  int step = 0;
  long allocations = 0;
  test::run_rank(*mesh, program, {}, 4, [&](PipelineExecutor& pipeline, MicroBatchSource& source) {
    if (++step == 1) return pipeline.run(source);
    const long before = test::allocations_of_this_thread();
    const double loss = pipeline.run(source);
    allocations += test::allocations_of_this_thread() - before;
    return loss;
  });
  EXPECT_EQ(step, 4);
  EXPECT_EQ(allocations, 0);
}

}  // namespace
}  // namespace trireme
