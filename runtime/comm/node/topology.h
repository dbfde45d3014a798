// Topology: which ranks of a group share a node. Pure arithmetic.
#pragma once

#include <vector>

namespace trireme::comm {

struct Topology {
  /// node_colors: per rank of the group, any number that is the same for ranks of one node.
  Topology(const std::vector<int>& node_colors, int rank);

  int rank;
  int node = 0;   // node of this rank; nodes are numbered in the order of their lowest rank
  int lanes = 0;  // size of the smallest node in ranks: that many pairs speak across nodes
  std::vector<std::vector<int>> ranks;  // per node, ascending
  std::vector<int> node_of, local_of;   // per rank: its node, and its place there

  int size() const { return static_cast<int>(node_of.size()); }
  int nodes() const { return static_cast<int>(ranks.size()); }
  const std::vector<int>& here() const { return ranks[static_cast<std::size_t>(node)]; }
  int locals() const { return static_cast<int>(here().size()); }
  int local() const { return local_of[static_cast<std::size_t>(rank)]; }
  /// The rank on `on_node` that handles data of `of_rank` there: itself if it lives there.
  int helper(int of_rank, int on_node) const;
  /// The rank on `on_node` in the same place as this one; there is one when local() < lanes.
  int in_lane(int on_node) const {
    return ranks[static_cast<std::size_t>(on_node)][static_cast<std::size_t>(local())];
  }
};

}  // namespace trireme::comm
