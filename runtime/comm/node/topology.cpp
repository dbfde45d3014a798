#include "runtime/comm/node/topology.h"

#include <algorithm>
#include <map>

namespace trireme::comm {

Topology::Topology(const std::vector<int>& node_colors, int rank_) : rank(rank_) {
  std::map<int, int> node_of_color;
  for (int r = 0; r < static_cast<int>(node_colors.size()); ++r) {
    const int color = node_colors[static_cast<std::size_t>(r)];
    const auto [found, added] = node_of_color.try_emplace(color, nodes());
    if (added) ranks.emplace_back();
    std::vector<int>& there = ranks[static_cast<std::size_t>(found->second)];
    node_of.push_back(found->second);
    local_of.push_back(static_cast<int>(there.size()));
    there.push_back(r);
  }
  node = node_of[static_cast<std::size_t>(rank)];
  lanes = size();
  for (const auto& there : ranks) lanes = std::min(lanes, static_cast<int>(there.size()));
}

int Topology::helper(int of_rank, int on_node) const {
  const auto& there = ranks[static_cast<std::size_t>(on_node)];
  return there[static_cast<std::size_t>(local_of[static_cast<std::size_t>(of_rank)]) %
               there.size()];
}

}  // namespace trireme::comm
