// Runs a traced graph on the test device: all stages in one process, transfers by hand, several micro-batches in flight.
#pragma once

#include <cstring>
#include <map>

#include "trireme/comm/mesh.h"
#include "trireme/graph/executor.h"

#include "tests/graph/toy_ops.h"

namespace trireme::test {

struct RunOptions {
  int stages = 1;
  PlanOptions plan = {};
  int micro_batches = 3;
  int slots = 3;
};

struct RunResult {
  std::vector<double> losses;  // per micro-batch
  std::vector<std::vector<float>>
      gradients;    // per graph parameter, summed over the stages that hold it
  PlanBytes bytes;  // of stage 0
  friend bool operator==(const RunResult& a, const RunResult& b) {
    return a.losses == b.losses && a.gradients == b.gradients;
  }
};

/// Deterministic contents.
inline float number(std::uint64_t what, Index i, float scale = 0.5f) {
  return scale * (2 * Random{what * 7919 + 17}.uniform(i) - 1);
}

using ParameterValues = std::vector<std::vector<float>>;
inline ParameterValues initial_parameters(const Graph& graph) {
  ParameterValues values;
  for (const Parameter& p : graph.parameters()) {
    values.emplace_back(static_cast<std::size_t>(p.spec.shape.count()));
    for (std::size_t i = 0; i < values.back().size(); ++i)
      values.back()[i] = number(static_cast<std::uint64_t>(p.id) + 1, static_cast<Index>(i));
  }
  return values;
}

/// One stage: plan, memory full of NaN, executor.
class Stage {
 public:
  Stage(const Graph& graph, const Values& results, const StageCut& cut, int stage,
        PlanOptions options, const ParameterValues& values, Communicator& tensor_axis,
        int slots = 2, ExecutorHooks* hooks = nullptr)
      : plan(graph, results, cut, stage, options), stream(device), slots_(slots) {
    const PlanBytes& bytes = plan.bytes();
    stride_ = (bytes.slot + 4095) / 4096 * 4096;
    memory_ = allocate_host(stride_ * slots + 4096);
    scratch_ = allocate_host(bytes.scratch + 4096);
    std::memset(memory_.data(), 0xff, static_cast<std::size_t>(stride_ * slots + 4096));
    std::memset(scratch_.data(), 0xff, static_cast<std::size_t>(bytes.scratch + 4096));
    ExecutorMemory memory{memory_.data(), stride_, scratch_.data(), {}, {}};
    for (const int p : plan.parameters()) {
      const Spec& spec = graph.parameters()[static_cast<std::size_t>(p)].spec;
      parameters.push_back(values[static_cast<std::size_t>(p)]);
      gradients.emplace_back(parameters.back().size(), 0.0f);
      memory.parameters.emplace_back(parameters.back().data(), spec.shape);
      if (options.mode == PlanOptions::Mode::training)
        memory.gradients.emplace_back(gradients.back().data(), spec.shape);
    }
    executor =
        std::make_unique<Executor>(plan, memory, stream, tensor_axis, hooks ? *hooks : no_hooks);
  }

  Plan plan;
  TestDevice device;
  TestStream stream;
  ExecutorHooks no_hooks;
  std::vector<std::vector<float>> parameters, gradients;
  std::unique_ptr<Executor> executor;

 private:
  int slots_;
  Index stride_ = 0;
  Buffer memory_, scratch_;
};

/// Inputs of micro-batch m: floats, or tokens below 4.
class InputData {
 public:
  InputData(const Graph& graph, int m) {
    for (const int id : graph.inputs()) {
      const Spec& spec = graph.values()[static_cast<std::size_t>(id)].spec;
      data_.emplace_back(static_cast<std::size_t>(spec.bytes()));
      const auto key = static_cast<std::uint64_t>(1000 + m * 10) + data_.size();
      for (Index i = 0; i < spec.shape.count(); ++i) {
        if (spec.dtype == DType::i32)
          reinterpret_cast<std::int32_t*>(data_.back().data())[i] =
              static_cast<std::int32_t>(Random{key}.bits(i) % 4);
        else
          reinterpret_cast<float*>(data_.back().data())[i] = number(key, i, 1);
      }
      tensors_.emplace_back(data_.back().data(), spec.shape, spec.dtype);
    }
  }
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::vector<std::vector<std::byte>> data_;
  std::vector<Tensor> tensors_;
};

inline void carry(Stage& from, const Transfer& sent, Stage& to, const Transfer& received,
                  int slot) {
  require(sent.bytes == received.bytes && sent.names == received.names,
          "the stages do not agree on what crosses");
  if (sent.bytes > 0)
    std::memcpy(to.executor->transfer(slot, received), from.executor->transfer(slot, sent),
                static_cast<std::size_t>(sent.bytes));
}

/// Forward and backward of all micro-batches over all stages: forwards until the slots are full, then backward and forward in turn.
inline RunResult run(const Graph& graph, const Value& loss, const RunOptions& options,
                     const ParameterValues& values) {
  const auto mesh = make_self_mesh();
  const StageCut cut = cut_stages(graph, {loss}, options.stages);
  std::vector<std::unique_ptr<Stage>> stages;
  for (int s = 0; s < options.stages; ++s)
    stages.push_back(std::make_unique<Stage>(graph, Values{loss}, cut, s, options.plan, values,
                                             mesh->axis(Axis::tensor), options.slots));
  RunResult result;
  std::vector<InputData> data;
  for (int m = 0; m < options.micro_batches; ++m) data.emplace_back(graph, m);
  const auto batch = [&](int m) {
    return MicroBatch{.step = 0,
                      .number = m,
                      .first_sample = m,
                      .last = m + 1 == options.micro_batches,
                      .loss_scale = 0.25,
                      .inputs = data[static_cast<std::size_t>(m)].tensors()};
  };
  const auto forward = [&](int m) {
    const int slot = m % options.slots;
    for (int s = 0; s < options.stages; ++s) {
      Stage& stage = *stages[static_cast<std::size_t>(s)];
      stage.executor->forward(slot, batch(m));
      if (s + 1 == options.stages) break;
      Stage& next = *stages[static_cast<std::size_t>(s) + 1];
      carry(stage, stage.plan.send_values(), next, next.plan.receive_values(), slot);
    }
  };
  const auto backward = [&](int m) {
    const int slot = m % options.slots;
    for (int s = options.stages; s-- > 0;) {
      Stage& stage = *stages[static_cast<std::size_t>(s)];
      if (options.plan.backward == PlanOptions::Backward::split) {
        stage.executor->backward(slot, batch(m), BackwardPart::input);
      } else {
        stage.executor->backward(slot, batch(m));
      }
      if (s == 0) continue;
      Stage& before = *stages[static_cast<std::size_t>(s) - 1];
      carry(stage, stage.plan.send_gradients(), before, before.plan.receive_gradients(), slot);
    }
    const Executor& last = *stages.back()->executor;
    result.losses.push_back(*last.result(slot).as<double>());
  };
  // With split backward, parameter gradients come as late as they can: other slots run in between.
  const bool split = options.plan.backward == PlanOptions::Backward::split;
  int forwards = 0, finished = 0;
  const auto finish = [&](int below) {
    for (; split && finished < below; ++finished)
      for (auto& stage : stages)
        stage->executor->backward(finished % options.slots, batch(finished),
                                  BackwardPart::parameter);
  };
  const int in_flight = split ? std::max(1, options.slots - 1) : options.slots;
  for (int m = 0; m < options.micro_batches; ++m) {
    for (; forwards < std::min(options.micro_batches, m + in_flight); ++forwards) {
      finish(forwards - options.slots + 1);
      forward(forwards);
    }
    backward(m);
  }
  finish(options.micro_batches);
  for (const Parameter& p : graph.parameters())
    result.gradients.emplace_back(p.spec.shape.count(), 0.0f);
  for (auto& stage : stages)
    for (std::size_t i = 0; i < stage->gradients.size(); ++i) {
      auto& sum = result.gradients[static_cast<std::size_t>(stage->plan.parameters()[i])];
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += stage->gradients[i][k];
    }
  result.bytes = stages.front()->plan.bytes();
  return result;
}

inline RunResult run(const Graph& graph, const Value& loss, const RunOptions& options = {}) {
  return run(graph, loss, options, initial_parameters(graph));
}

/// |g.d - numeric| / max(|g|, 0.05) along a random direction d of all parameters: the least over several steps, since these
/// functions are rough for large steps and f32 is for small ones.
inline double directional_error(const Graph& graph, const Value& loss, const RunResult& result) {
  const ParameterValues at = initial_parameters(graph);
  const auto total = [&](double t) {
    ParameterValues moved = at;
    for (std::size_t p = 0; p < at.size(); ++p)
      for (std::size_t i = 0; i < at[p].size(); ++i)
        moved[p][i] += static_cast<float>(t) * number(500 + p, static_cast<Index>(i), 1);
    double sum = 0;
    for (const double l : run(graph, loss, {}, moved).losses) sum += 0.25 * l;
    return sum;
  };
  double analytic = 0, squares = 0;
  for (std::size_t p = 0; p < at.size(); ++p)
    for (std::size_t i = 0; i < at[p].size(); ++i) {
      const double g = result.gradients[p][i];
      analytic += g * number(500 + p, static_cast<Index>(i), 1);
      squares += g * g;
    }
  double error = 1e9;
  for (const double h : {1.0 / 64, 1.0 / 256, 1.0 / 1024, 1.0 / 4096}) {
    const double numeric = (8 * (total(h) - total(-h)) - (total(2 * h) - total(-2 * h))) / (12 * h);
    error = std::min(error, std::abs(analytic - numeric) / std::max(0.05, std::sqrt(squares)));
  }
  return error;
}

}  // namespace trireme::test
