// A small model for the tests of the pipeline, and one rank of a pipeline that trains it.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "runtime/pipeline/executor.h"
#include "tests/graph/runner.h"

namespace trireme::test {

inline Value apply(OpPtr op, const Values& inputs) {
  return inputs.front().graph().apply(op, inputs)[0];
}

// Eight blocks, a table that the first and the last stage share, a skip over all cuts and one
// strided view of it.
inline Value model(Graph& g, LossMade made = LossMade::in_forward) {
  const Value tokens = g.input("tokens", Spec({3}, DType::i32)), target = g.input("target", {3, 5});
  const Value table = g.parameter("table", {5, 6}, replicated(), normal(1));
  const Value first = apply(std::make_shared<Rows>(), {tokens, table});
  const Value part = apply(std::make_shared<Slice>(1, 1, 5), {first});
  Value x = first;
  for (int i = 0; i < 8; ++i)
    x = g.block("block", i, [&] {
      const Value scale = g.parameter("scale", {6}, replicated(), ones());
      const Value up = g.parameter("up", {4, 6}, replicated(), normal(1));
      const Value down = g.parameter("down", {6, 4}, replicated(), normal(1));
      Value h = apply(std::make_shared<RmsNorm>(), {x, scale});
      h = apply(std::make_shared<Tanh>(), {apply(std::make_shared<Linear>(), {h, up})});
      h = apply(std::make_shared<Mix>(), {h, part, h});
      return apply(std::make_shared<Add>(), {x, apply(std::make_shared<Linear>(), {h, down})});
    });
  x = apply(std::make_shared<Mul>(), {x, first});
  const Value y = apply(std::make_shared<Linear>(), {x, table});
  const Value weight = g.parameter("weight", {3, 5}, replicated(), normal(1));
  return apply(std::make_shared<WeightedError>(made), {y, target, weight});
}

class Data final : public MicroBatchSource {
 public:
  Data(const Graph& graph, int count) {
    for (int m = 0; m < count; ++m) data_.emplace_back(graph, m);
  }
  MicroBatch micro_batch(int, Index number) override {
    return {.number = number,
            .first_sample = number,
            .inputs = data_[static_cast<std::size_t>(number)].tensors()};
  }
  void on_result(Index number, const Tensor& result) override {
    require(number == reported_++ % static_cast<Index>(data_.size()), "result ", number,
            " out of turn");
    if (results.size() < data_.size()) results.push_back(*result.as<double>());
  }
  std::vector<double> results;  // of the first step
  /// Results, over all steps.
  Index reported() const { return reported_; }

 private:
  Index reported_ = 0;
  std::vector<InputData> data_;
};

// Counts complete gradients and moves the transport on, as the trainer's hooks do.
class Hooks final : public ExecutorHooks {
 public:
  explicit Hooks(Communicator& axis) : axis_(axis) {}
  void gradient_ready(int position) override { ++ready[static_cast<std::size_t>(position)]; }
  void op_boundary() override { axis_.progress(); }
  std::array<int, 64> ready{};

 private:
  Communicator& axis_;
};

/// What one rank found. Gradients by graph parameter.
struct RankResult {
  double loss = 0;              // of the last step
  std::vector<double> results;  // given to on_result in the first step
  std::map<int, std::vector<float>> gradients;
  std::map<int, int> ready;  // how often a gradient was said to be complete, summed over chunks
};

/// One rank of the pipeline axis: its chunks, `steps` steps; gradients add up over them.
inline RankResult run_rank(Mesh& mesh, const StageProgram& program, PlanOptions plan, int steps,
                           FunctionRef<double(PipelineExecutor&, MicroBatchSource&)> run_step,
                           LossMade made = LossMade::in_backward) {
  const PipelineShape& shape = program.shape;
  Graph g;
  const Value loss = model(g, made);
  const StageCut cut = cut_stages(g, {loss}, shape.virtual_stages());
  Communicator& axis = mesh.axis(Axis::pipeline);
  std::vector<std::unique_ptr<Hooks>> hooks;
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<PipelineChunk> chunks;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    hooks.push_back(std::make_unique<Hooks>(axis));
    plan.backward = program.splits_backward(chunk) ? PlanOptions::Backward::split
                                                   : PlanOptions::Backward::whole;
    stages.push_back(std::make_unique<Stage>(
        g, Values{loss}, cut, shape.virtual_stage(program.stage, chunk), plan,
        initial_parameters(g), mesh, program.slots[static_cast<std::size_t>(chunk)],
        hooks.back().get()));
    stages.back()->scalars.write({.loss_scale = 0.25});
    chunks.push_back({&stages.back()->plan, stages.back()->executor.get()});
  }
  PipelineExecutor pipeline(program, chunks, axis, stages.front()->stream);
  Data data(g, static_cast<int>(shape.micro_batches));
  RankResult result;
  for (int step = 0; step < steps; ++step) result.loss = run_step(pipeline, data);
  require(data.reported() == 0 || data.reported() == steps * shape.micro_batches, data.reported(),
          " results were given of ", shape.micro_batches, " in each of ", steps, " steps");
  result.results = data.results;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (std::size_t i = 0; i < stages[s]->gradients.size(); ++i) {
      const int p = stages[s]->plan.parameters()[i];
      auto& total = result.gradients[p];
      total.resize(stages[s]->gradients[i].size());
      for (std::size_t k = 0; k < total.size(); ++k) total[k] += stages[s]->gradients[i][k];
      result.ready[p] += hooks[s]->ready[i];
    }
  return result;
}

inline RankResult run_rank(Mesh& mesh, const StageProgram& program, PlanOptions plan, int steps,
                           LossMade made = LossMade::in_backward) {
  return run_rank(
      mesh, program, plan, steps,
      [](PipelineExecutor& pipeline, MicroBatchSource& source) { return pipeline.run(source); },
      made);
}

/// The same on one stage, every loss made in forward: what every pipeline has to agree with.
inline RankResult run_one_stage(Index micro_batches, int steps) {
  const auto mesh = make_self_mesh();
  return run_rank(*mesh, make_program(ScheduleKind::one_f_one_b, {1, 1, micro_batches}, 0), {},
                  steps, LossMade::in_forward);
}

/// The table, parameter 0, is held by the first and the last stage: its gradient is a sum of two.
inline constexpr int shared_parameter = 0;

}  // namespace trireme::test
