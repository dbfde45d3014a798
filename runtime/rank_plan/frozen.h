// Which parameters of a model stay as they are (TrainingSpec::frozen).
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/graph/graph.h"
#include "trireme/rank_plan/training_spec.h"

namespace trireme {

/// After tracing: freezes the parameters that the spec names; all where it trains none. Throws:
/// Error with the parts that there are, for a name of no part, of one of several logical tensors
/// that lie side by side, or where nothing would be left to train.
void freeze(Graph& graph, const TrainingSpec& spec);

/// "3 of 28 tensors, 25.7 of 124.4 million parameters", and what is tied; "" where nothing is
/// frozen.
std::string describe_frozen(const Graph& graph);

}  // namespace trireme
