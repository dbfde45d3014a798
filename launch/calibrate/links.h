// Links between ranks: each collective inside a node and across nodes, messages, and what a
// collective costs the work beside it.
#pragma once

#include "launch/calibrate/timer.h"
#include "runtime/cost/profile.h"

namespace trireme::calibrate {

struct Nodes {
  int count = 1, ranks = 1;  // ranks per node
  int node = 0, place = 0;   // node of this rank, and its place on the node
};
/// Collective. Throws: Error when nodes have different numbers of ranks, or theirs are not
/// neighbours.
Nodes find_nodes(const Host& host);

/// Collective. Sets Profile::node, across, collectives and contention.
void measure_links(const Context& context, Timer& timer, const Nodes& nodes, double budget_s,
                   cost::Profile& profile);

}  // namespace trireme::calibrate
