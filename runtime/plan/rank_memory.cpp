#include "runtime/plan/rank_memory.h"

namespace trireme {

MemoryNeed rank_memory(const PlannedTraining& plan, const CheckpointMemory& checkpoint) {
  MemoryNeed need = plan.memory_need();
  if (checkpoint) checkpoint(plan, need);
  return need;
}

}  // namespace trireme
