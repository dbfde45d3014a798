// Makes NCCL allocate its memory before the plan is compared with what is free.
#pragma once

#include "trireme/job/run.h"

#include "runtime/optim/gradient_reducer.h"
#include "runtime/plan/planned_training.h"

namespace trireme::train {

/// Collective. Runs each operation of training once in each group of GPUs, on temporary memory: the
/// axes, the world and `ties`. Does nothing on CPUs and for one rank. Throws: JobError when a GPU
/// has no memory for that; Error of a group.
void warm_up_groups(const Context& context, const PlannedTraining& plan, const TieGroups& ties);

}  // namespace trireme::train
