// rank_memory: all memory that one rank of a layout needs, for the trainer and for the planner
// alike.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <set>

#include "runtime/rank_plan/planned_training.h"

namespace trireme {

/// Sets what checkpoints need (MemoryNeed::checkpoint, snapshots, loading) of a rank. Their formats
/// are known above this module only.
using CheckpointMemory = std::function<void(const PlannedTraining&, MemoryNeed&)>;

/// `checkpoint`: null: nothing is saved or loaded.
MemoryNeed rank_memory(const PlannedTraining& plan, const CheckpointMemory& checkpoint = {});

/// The first and the last data rank of those that run equally many micro-batches and have equal
/// shares of the optimizer. Those between need no more memory than they do.
std::set<int> distinct_data_ranks(const TrainingSpec& spec);

}  // namespace trireme
