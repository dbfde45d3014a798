// The order in which data ranks start the sums of their gradients. It has to be one on all of them,
// also where their pipelines run different numbers of micro-batches.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/rank_plan/planned_model.h"

namespace trireme {

/// The pipelines of the data ranks, each shape once, in the order of data ranks.
std::vector<PipelineShape> pipeline_shapes(const TrainingSpec& spec);

/// Throws: Error when the stage of this rank ends its chunks in another order in some pipeline than
/// in another.
void check_reduction_order(const PlanTarget& target);

}  // namespace trireme
