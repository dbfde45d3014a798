// Stages that are alike: their plans differ only in names and in ids of parameters, so that one of
// them says what each needs and how long it takes. A large model has many of few kinds.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/graph/compile/plan.h"

namespace trireme {

/// Per block of the graph (block_of_nodes): neighbours of equal kind have the same ops on values of
/// the same specs, connected in the same way. A graph without blocks has one.
std::vector<int> block_kinds(const Graph& graph, const Values& results, PlanOptions::Mode mode);

/// Per stage of the cut: stages of equal kind are alike. `blocks`: block_kinds() of that graph.
std::vector<int> stage_kinds(const Graph& graph, const StageCut& cut, const PlanBasis& basis,
                             const std::vector<int>& blocks);

/// The plan of `stage`, which is alike, from that of another stage of the cut.
Plan plan_like(const Plan& plan, int stage, const Graph& graph, const PlanBasis& basis);

}  // namespace trireme
