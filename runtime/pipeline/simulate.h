// Simulation of programs with waiting sends: proves that they complete, and measures and draws
// their time. It models the strictest transport that a program may use (NCCL's): the exchanges of a
// stage complete one after the other, and each only when every partner has started the matching
// one.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "runtime/pipeline/program.h"

namespace trireme::pipeline {

/// Time of the messages of one chunk. An exchange takes as long as its longest message.
struct TransferCosts {
  constexpr TransferCosts(double all = 0)  // NOLINT(google-explicit-constructor)
      : values_in(all), values_out(all), gradients_in(all), gradients_out(all) {}
  double values_in, values_out, gradients_in, gradients_out;
};

/// Time of one work of one chunk, in any unit.
struct Costs {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;  // a whole backward costs both
  TransferCosts transfer = {};
};

struct TimedSpan {
  Work work;
  double begin, end;
};

struct Simulation {
  bool completed = false;
  /// Where each stage is blocked, or which messages do not match; empty when completed.
  std::string problem;
  double makespan = 0;
  std::vector<std::vector<TimedSpan>> stages;  // what has run
  /// Per stage: when it is done, exchanges included, and how long it waited while messages were on
  /// their way; other waits are for stages that were not ready.
  std::vector<double> ends, transfer_waits;

  /// Share of the makespan, averaged over the stages, in which no work runs.
  double bubble() const;
};

/// All stages of one pipeline, in order.
Simulation simulate(const std::vector<StageProgram>& programs, Costs costs = {});
/// `costs`: of each chunk of each stage.
Simulation simulate(const std::vector<StageProgram>& programs,
                    const std::vector<std::vector<Costs>>& costs);

/// One row a stage, one column a unit of time: "F0" forward of micro-batch 0, "B0==" a backward of
/// two units.
std::string draw(const Simulation& simulation, int chunks);

}  // namespace trireme::pipeline
