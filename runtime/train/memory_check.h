// Whether all ranks together can allocate what they need.
#pragma once

#include <string>

#include "trireme/job/run.h"

#include "runtime/rank_plan/planned_training.h"

namespace trireme::train {

/// Where memory is short: on a GPU, or on a node, for so many ranks.
struct ShortMemory {
  bool of_gpu;
  int ranks;
};

/// What would help and is not in force yet: options, other layouts, more machines. `data_size`: of
/// the mesh; `checkpoint`: memory is planned for saves.
std::string memory_remedies(const Options& options, const KeyValues& configuration, int data_size,
                            bool checkpoint, ShortMemory where);

/// With what checkpoints need. Throws: Error when what a rank saves is too large for a file.
MemoryNeed memory_need(const Context& context, const PlannedTraining& plan);

/// Collective. Returns how many ranks of this job are on this rank's node. Throws:
/// ConfigurationError on all ranks when a node or a GPU has less memory free than its ranks need.
int check_memory(const Context& context, const PlannedTraining& plan);

}  // namespace trireme::train
