// Hosts: which ranks of a plan run on which node, for a host file of Open MPI.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "runtime/planner/search/cluster.h"
#include "runtime/planner/unequal/unequal_plan.h"

namespace trireme::planner {

/// Consecutive ranks on one node.
struct HostRun {
  int group = 0, node = 0;  // counted from 0
  int ranks = 0;
};
/// In the order of ranks: stages, in them pipelines, in them tensor ranks. Each rank is on a node
/// of its type, which are filled one after the other. Of plans that can be launched.
std::vector<HostRun> host_runs(const Cluster& cluster, const UnequalPlan& plan);

/// Whether a node's ranks do not follow each other: the host file then has a line for each rank.
bool needs_line_per_rank(const std::vector<HostRun>& runs);
/// What the host file has, in words.
std::string describe_hosts(const Cluster& cluster, const std::vector<HostRun>& runs);

}  // namespace trireme::planner
