// Before memory is compared with what is free, NCCL has to have taken its own.
#pragma once

#include "runtime/train/trainer_state.h"

namespace trireme {

/// Collective. Runs once, on memory of its own that it frees, what training will run in each group of GPUs: the axes, the world and
/// State::ties. Does nothing on CPUs and for one rank. Throws: JobError when a GPU has no memory for that; Error of a group.
void warm_up_groups(Trainer::State& state);

}  // namespace trireme
