#include "trireme/pipeline/executor.h"

#include <array>
#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include "trireme/pipeline/simulate.h"

#include "tests/graph/runner.h"

namespace trireme {
namespace {

using test::InputData;
using test::Stage;

Value apply(OpPtr op, const Values& inputs) { return inputs.front().graph().apply(op, inputs)[0]; }

// Eight blocks, a table that the first and the last stage share, a skip over all cuts and one strided view of it.
Value model(Graph& g) {
  const Value tokens = g.input("tokens", Spec({3}, DType::i32)), target = g.input("target", {3, 5});
  const Value table = g.parameter("table", {5, 6}, replicated(), normal(1));
  const Value first = apply(std::make_shared<test::Rows>(), {tokens, table});
  const Value part = apply(std::make_shared<test::Slice>(1, 1, 5), {first});
  Value x = first;
  for (int i = 0; i < 8; ++i)
    x = g.block("block", i, [&] {
      const Value scale = g.parameter("scale", {6}, replicated(), ones());
      const Value up = g.parameter("up", {4, 6}, replicated(), normal(1));
      const Value down = g.parameter("down", {6, 4}, replicated(), normal(1));
      Value h = apply(std::make_shared<test::RmsNorm>(), {x, scale});
      h = apply(std::make_shared<test::Tanh>(), {apply(std::make_shared<test::Linear>(), {h, up})});
      h = apply(std::make_shared<test::Mix>(), {h, part, h});
      return apply(std::make_shared<test::Add>(),
                   {x, apply(std::make_shared<test::Linear>(), {h, down})});
    });
  x = apply(std::make_shared<test::Mul>(), {x, first});
  const Value y = apply(std::make_shared<test::Linear>(), {x, table});
  return apply(std::make_shared<test::SquaredError>(), {y, target});
}

struct Case {
  int stages = 1, chunks = 1;
  int micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::uint64_t hostile_seed = 0;
  int extra_slots = 0;
  int steps = 2;  // gradients add up over them
};

struct Result {
  double loss = 0;  // of the last step
  std::vector<std::vector<float>> gradients;
  std::vector<double> results;  // told by on_result, in order
  std::vector<int> ready;       // per parameter: how often its gradient was said to be complete
};

class Data final : public MicroBatchSource {
 public:
  Data(const Graph& graph, int count) {
    for (int m = 0; m < count; ++m) data_.emplace_back(graph, m);
  }
  MicroBatch micro_batch(int, Index number) override {
    return {.number = number,
            .first_sample = number,
            .loss_scale = 0.25,
            .inputs = data_[static_cast<std::size_t>(number)].tensors()};
  }
  void on_result(Index number, const Tensor& result) override {
    EXPECT_EQ(number, told_++ % static_cast<Index>(data_.size()));
    if (results.size() < data_.size()) results.push_back(*result.as<double>());
  }
  std::vector<double> results;  // of the first step

 private:
  Index told_ = 0;
  std::vector<InputData> data_;
};

// Counts complete gradients and moves the transport on, as the trainer's hooks do.
class Hooks final : public ExecutorHooks {
 public:
  Hooks(Communicator& axis) : axis_(axis) {}
  void gradient_ready(int position) override { ++ready[static_cast<std::size_t>(position)]; }
  void op_boundary() override { axis_.progress(); }
  std::array<int, 64> ready{};

 private:
  Communicator& axis_;
};

// One rank: its chunks, its pipeline, the steps; adds what it found to `all`.
void run_rank(Mesh& mesh, const Case& c, const StageProgram& program, PlanOptions plan, Result& all,
              std::mutex& mutex) {
  Graph g;
  const Value loss = model(g);
  const StageCut cut = cut_stages(g, {loss}, c.stages * c.chunks);
  Communicator& axis = mesh.axis(Axis::pipeline);
  std::vector<std::unique_ptr<Hooks>> hooks;
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<PipelineChunk> chunks;
  for (int chunk = 0; chunk < c.chunks; ++chunk) {
    hooks.push_back(std::make_unique<Hooks>(axis));
    stages.push_back(std::make_unique<Stage>(
        g, Values{loss}, cut, program.shape.virtual_stage(program.stage, chunk), plan,
        test::initial_parameters(g), mesh.axis(Axis::tensor),
        program.slots[static_cast<std::size_t>(chunk)], hooks.back().get()));
    chunks.push_back({&stages.back()->plan, stages.back()->executor.get()});
  }
  PipelineExecutor pipeline(program, chunks, axis, stages.front()->stream);
  Data data(g, c.micro_batches);
  double sum = 0;
  for (int step = 0; step < c.steps; ++step) sum = pipeline.run(data);

  const std::lock_guard lock(mutex);
  all.loss += sum;
  all.results.insert(all.results.end(), data.results.begin(), data.results.end());
  all.gradients.resize(g.parameters().size());
  all.ready.resize(g.parameters().size());
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (std::size_t i = 0; i < stages[s]->gradients.size(); ++i) {
      const auto p = static_cast<std::size_t>(stages[s]->plan.parameters()[i]);
      auto& total = all.gradients[p];
      total.resize(stages[s]->gradients[i].size());
      for (std::size_t k = 0; k < total.size(); ++k) total[k] += stages[s]->gradients[i][k];
      all.ready[p] += hooks[s]->ready[i];
    }
}

Result run_programs(const Case& c, const std::vector<StageProgram>& programs,
                    PlanOptions plan = {.poison = true}) {
  Result all;
  std::mutex mutex;
  run_on_threads(MeshShape(1, c.stages, 1),
                 [&](Mesh& mesh) {
                   run_rank(mesh, c, programs[static_cast<std::size_t>(mesh.rank())], plan, all,
                            mutex);
                 },
                 {.hostile_seed = c.hostile_seed});
  return all;
}

Result run(const Case& c) {
  const PipelineShape shape{c.stages, c.chunks, c.micro_batches};
  return run_programs(
      c, make_programs(work_orders(c.schedule, shape), shape, {.extra_slots = c.extra_slots}));
}

// The loss and all gradients, bit for bit; the shared table is a sum over two stages, so its order differs.
void expect_same(const Result& got, const Result& expected) {
  EXPECT_EQ(got.loss, expected.loss);
  EXPECT_EQ(got.results, expected.results);
  ASSERT_EQ(got.gradients.size(), expected.gradients.size());
  for (std::size_t k = 0; k < expected.gradients[0].size(); ++k)
    EXPECT_NEAR(got.gradients[0][k], expected.gradients[0][k], 1e-5);
  for (std::size_t p = 1; p < expected.gradients.size(); ++p)
    EXPECT_EQ(got.gradients[p], expected.gradients[p]) << "parameter " << p;
}

const Result& one_stage(int micro_batches) {
  static std::map<int, Result> known;
  const auto [at, fresh] = known.try_emplace(micro_batches);
  if (fresh) at->second = run({.micro_batches = micro_batches});
  return at->second;
}

TEST(PipelineExecutor, OneStageIsTheGraphRunMicroBatchByMicroBatch) {
  Graph g;
  const Value loss = model(g);
  const test::RunResult reference = test::run(g, loss, {.micro_batches = 4, .slots = 1});
  const Result result = run({.micro_batches = 4, .steps = 1});
  double sum = 0;
  for (const double l : reference.losses) sum += l;
  EXPECT_EQ(result.loss, sum);
  EXPECT_EQ(result.results, reference.losses);
  EXPECT_EQ(result.gradients, reference.gradients);
  EXPECT_GT(sum, 0.1);
}

TEST(PipelineExecutor, EveryScheduleAgreesWithOneStageBitForBit) {
  for (const ScheduleKind schedule : all_schedules())
    for (const int stages : {1, 2, 3, 4})
      for (const int chunks : {1, 2})
        for (const int micro_batches : {1, 3, 8}) {
          const Case c{stages, chunks, micro_batches, schedule};
          if (!schedule_problem(schedule, {stages, chunks, micro_batches}).empty()) continue;
          SCOPED_TRACE(str(name(schedule), ", ", PipelineShape{stages, chunks, micro_batches}));
          expect_same(run(c), one_stage(micro_batches));
        }
}

TEST(PipelineExecutor, AHostileTransportChangesNothing) {
  for (const std::uint64_t seed : {1, 2})
    for (const Case& c :
         {Case{4, 1, 6, ScheduleKind::one_f_one_b}, Case{3, 1, 5, ScheduleKind::gpipe},
          Case{2, 4, 5, ScheduleKind::interleaved}, Case{3, 2, 7, ScheduleKind::interleaved}})
      for (const int extra_slots : {0, 1}) {
        Case hostile = c;
        hostile.hostile_seed = seed;
        hostile.extra_slots = extra_slots;
        SCOPED_TRACE(str(name(c.schedule), " seed ", seed, " extra slots ", extra_slots));
        expect_same(run(hostile), one_stage(c.micro_batches));
      }
}

TEST(PipelineExecutor, SplitBackwardsAgreeWithWholeOnes) {
  const PipelineShape shape{2, 1, 3};
  const auto F = [](Index i) { return Work{WorkKind::forward, 0, i}; };
  const auto I = [](Index i) { return Work{WorkKind::backward_input, 0, i}; };
  const auto W = [](Index i) { return Work{WorkKind::backward_parameter, 0, i}; };
  const std::vector<StageProgram> programs =
      make_programs({{F(0), F(1), I(0), F(2), I(1), W(0), I(2), W(1), W(2)},
                     {F(0), I(0), F(1), I(1), F(2), I(2), W(0), W(1), W(2)}},
                    shape);
  expect_same(run_programs({.stages = 2, .micro_batches = 3, .hostile_seed = 7}, programs,
                           {.backward = PlanOptions::Backward::split, .poison = true}),
              one_stage(3));
}

TEST(PipelineExecutor, ForwardOnlyGivesTheSameLosses) {
  for (const auto& [stages, chunks] : {std::pair{1, 1}, {1, 3}, {3, 1}, {2, 4}, {4, 2}})
    for (const int extra_slots : {0, 1})
      for (const std::uint64_t seed : {5}) {
        const PipelineShape shape{stages, chunks, 8};
        const Result result = run_programs(
            {.stages = stages, .chunks = chunks, .micro_batches = 8, .hostile_seed = seed},
            make_programs(forward_orders(shape), shape, {.extra_slots = extra_slots}),
            {.mode = PlanOptions::Mode::forward_only, .poison = true});
        EXPECT_EQ(result.loss, one_stage(8).loss) << shape;
        EXPECT_EQ(result.results, one_stage(8).results) << shape;
      }
}

TEST(PipelineExecutor, GradientsAreCompleteOnceAStep) {
  for (const Case& c : {Case{1, 1, 3}, Case{4, 1, 6}, Case{2, 2, 4, ScheduleKind::interleaved}}) {
    const Result result = run(c);
    for (std::size_t p = 1; p < result.ready.size(); ++p) EXPECT_EQ(result.ready[p], c.steps);
    const int holders = c.stages * c.chunks > 1 ? 2 : 1;  // of the table
    EXPECT_EQ(result.ready[0], c.steps * holders);
  }
}

TEST(PipelineExecutor, WhatDoesNotFitTogetherIsNamed) {
  const auto message = [](StageProgram program, int chunks, int stage) {
    std::string text;
    const auto mesh = make_self_mesh();
    Graph g;
    const Value loss = model(g);
    const StageCut cut = cut_stages(g, {loss}, 2);
    Stage one(g, {loss}, cut, stage, {}, test::initial_parameters(g), mesh->axis(Axis::tensor));
    try {
      PipelineExecutor(std::move(program),
                       std::vector<PipelineChunk>(static_cast<std::size_t>(chunks),
                                                  {&one.plan, one.executor.get()}),
                       mesh->axis(Axis::pipeline), one.stream);
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  EXPECT_EQ(message(make_program(ScheduleKind::gpipe, {2, 1, 1}, 1), 1, 1),
            "the program of stage 1 of 2 was given to rank 0 of 1 of the axis 'pipeline'");
  EXPECT_EQ(message(make_program(ScheduleKind::gpipe, {1, 2, 1}, 0), 1, 0),
            "the program has 2 chunks, but there are 1 executors");
  EXPECT_EQ(message(make_program(ScheduleKind::gpipe, {1, 2, 1}, 0), 2, 0),
            "chunk 1 is virtual stage 1 of 2; its plan is for 0 of 2");
}

}  // namespace
}  // namespace trireme
