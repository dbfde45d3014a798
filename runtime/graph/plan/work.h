// What the steps of a program do: the counts behind Plan::work.
#pragma once

#include "runtime/graph/plan/plan_state.h"

namespace trireme::graph {

/// `state`: with its memory placed.
std::vector<StepWork> work_of(const Graph& graph, const Plan::State& state);

}  // namespace trireme::graph
