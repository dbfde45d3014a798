// Network: how ranks are spread over nodes, what connects nodes, and how long collectives of groups
// of ranks take on that.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/planner/profile.h"

namespace trireme::planner {

struct Network {
  int ranks_per_node = 8;
  Link port{5e-6, 50e9};  // of one rank, to other nodes: 400 Gb/s for each GPU
};

/// A group of ranks first, first + stride, ...: what one axis of a mesh is.
struct Group {
  int size = 1, stride = 1;
};

/// How a group lies on nodes: `local` of its ranks are on the node that has fewest of them.
struct Spread {
  int ranks = 1, local = 1;
};
/// Of an axis whose groups begin where nodes do. Nodes are filled in the order of ranks.
Spread spread_of(const Group& group, const Network& network);
/// Of any ranks of the world, in ascending order.
Spread spread_of(const std::vector<int>& ranks, const Network& network);

/// Seconds of a collective. One rank takes none.
double ring_time(const CollectiveWork& work, const Spread& group, const Profile& profile,
                 const Network& network);
/// Among the ranks of a group, all groups of the axis at once.
double collective_time(const CollectiveWork& work, const Group& group, const Profile& profile,
                       const Network& network);
/// Seconds of a message from one rank to another. 0 bytes take none.
double message_time(double bytes, int from, int to, const Profile& profile, const Network& network);

}  // namespace trireme::planner
