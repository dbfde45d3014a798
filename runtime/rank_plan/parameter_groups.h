// The groups that parameters of a model belong to (TrainingSpec::groups).
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/graph/graph.h"
#include "trireme/rank_plan/training_spec.h"

namespace trireme {

/// After tracing: assigns the groups of the spec; no parameter is trained where it trains none.
/// Throws: Error with the parts that there are, for a pattern of no part, of one of several logical
/// tensors that lie side by side, or where nothing would be left to train.
void assign_groups(Graph& graph, const TrainingSpec& spec);

/// "3 of 28 tensors, 25.7 of 124.4 million parameters", and what is tied; "" where nothing is
/// frozen.
std::string describe_frozen(const Graph& graph);

}  // namespace trireme
