// Network: how ranks are spread over nodes, what connects nodes, and how long collectives of groups
// of ranks take on that.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/cost/profile.h"

namespace trireme::cost {

struct Network {
  int ranks_per_node = 8;
  Link port{5e-6, 50e9};  // link of one rank to other nodes: 400 Gb/s for each GPU
};

/// The groups of ranks begin, begin + stride, ... of one axis of a mesh: the first one begins at
/// rank `first`, the next ones at the ranks that are in none before them.
struct Group {
  int size = 1, stride = 1;
  int ranks = 0;  // in all groups; 0: very many
  int first = 0;  // a multiple of size * stride
};

/// How a group lies on nodes, which are filled in the order of ranks: on so many, with `local` of
/// its ranks on the node that has fewest of them.
struct Spread {
  int ranks = 1, nodes = 1, local = 1;
};
/// Returns the spread of the group of the axis with the fewest ranks on one of its nodes, and of
/// several such groups the one on the most nodes.
Spread spread_of(const Group& group, const Network& network);
/// Returns the spread of any ranks of the world, in ascending order.
Spread spread_of(const std::vector<int>& ranks, const Network& network);

/// Seconds of a collective. One rank takes none.
double ring_time(const CollectiveWork& work, const Spread& group, const Profile& profile,
                 const Network& network);
/// Among the ranks of a group, all groups of the axis at once.
double collective_time(const CollectiveWork& work, const Group& group, const Profile& profile,
                       const Network& network);
/// Seconds of a message from one rank to another. 0 bytes take none.
double message_time(double bytes, int from, int to, const Profile& profile, const Network& network);

}  // namespace trireme::cost
