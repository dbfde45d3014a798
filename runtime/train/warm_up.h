// Before memory is compared with what is free, NCCL has to have taken its own.
#pragma once

#include "trireme/job/run.h"

#include "runtime/optim/gradient_reducer.h"
#include "runtime/plan/planned_training.h"

namespace trireme {

/// Collective. Runs once, on memory of its own that it frees, what training will run in each group
/// of GPUs: the axes, the world and `ties`. Does nothing on CPUs and for one rank. Throws: JobError
/// when a GPU has no memory for that; Error of a group.
void warm_up_groups(const Context& context, const PlannedTraining& plan, const TieGroups& ties);

}  // namespace trireme
