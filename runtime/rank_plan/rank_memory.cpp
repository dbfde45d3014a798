#include "runtime/rank_plan/rank_memory.h"

#include <map>

namespace trireme {

MemoryNeed rank_memory(const PlannedTraining& plan, const CheckpointMemory& checkpoint) {
  MemoryNeed need = plan.memory_need();
  if (checkpoint) checkpoint(plan, need);
  return need;
}

std::set<int> distinct_data_ranks(const TrainingSpec& spec) {
  check_optimizer_shares(spec);
  const int data = spec.mesh.size(Role::batch);
  if (spec.data_parallel_shares.empty() && spec.optimizer_shares.empty()) return {0, data - 1};
  std::map<std::pair<Index, Index>, std::pair<int, int>> ends;  // of each kind
  for (int rank = 0; rank < data; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    const Index share = spec.optimizer_shares.empty() ? 1 : spec.optimizer_shares.at(place);
    const std::pair kind(spec.micro_batches(rank).count, share);
    ends.try_emplace(kind, rank, rank).first->second.second = rank;
  }
  std::set<int> ranks;
  for (const auto& [kind, first_and_last] : ends)
    ranks.insert({first_and_last.first, first_and_last.second});
  return ranks;
}

}  // namespace trireme
