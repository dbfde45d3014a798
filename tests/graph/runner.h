// Runs a traced graph on the test device: all stages in one process, transfers by hand, several
// micro-batches in flight.
#pragma once

#include "tests/graph/one_stage.h"

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

/// Forward and backward of all micro-batches over all stages: forwards until the slots are full,
/// then backward and forward alternately.
inline RunResult run(const Graph& graph, const Value& loss, const RunOptions& options,
                     const ParameterValues& values) {
  const auto mesh = make_self_mesh();
  const StageCut cut = cut_stages(graph, {loss}, options.stages);
  std::vector<std::unique_ptr<Stage>> stages;
  for (int s = 0; s < options.stages; ++s)
    stages.push_back(std::make_unique<Stage>(graph, Values{loss}, cut, s, options.plan, values,
                                             *mesh, options.slots));
  for (const auto& stage : stages) stage->scalars.write({.loss_scale = 0.25});
  RunResult result;
  std::vector<InputData> data;
  for (int m = 0; m < options.micro_batches; ++m) data.emplace_back(graph, m);
  const auto batch = [&](int m) {
    return MicroBatch{.step = 0,
                      .number = m,
                      .first_sample = m,
                      .last = m + 1 == options.micro_batches,
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

/// |g.d - numeric| / max(|g|, 0.05) along a random direction d of all parameters: the least over
/// several steps, since these functions are rough for large steps and f32 is for small ones.
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
