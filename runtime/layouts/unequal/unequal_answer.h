// What trireme plan says of GPUs of several types: the text, the JSON, and the command line.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/json/json.h"
#include "runtime/layouts/search/answer.h"
#include "runtime/layouts/search/cluster.h"
#include "runtime/layouts/unequal/unequal_plan.h"
#include "runtime/layouts/unequal/unequal_search.h"

namespace trireme::layouts {

/// What such a cluster has no answer to, in one sentence; empty: nothing. `question`: with more
/// than one group.
std::string unequal_problem(const TrainingTask& task, const Question& question);

/// What a step of a choice means for people; its GPUs alone are paid for.
Figures figures_of(const TrainingTask& task, const Question& question, const Choice& choice);
/// "tp 1  pp 1  dp 24  mb 1", without GPUs.
std::string describe(const Choice& choice);
/// Names the GPUs used: "8 H100-80 + 8 A100-80", or by stages "8 A100-80 > 8 H100-80".
std::string describe_gpus(const Cluster& cluster, const Choice& choice);

/// Returns the command line that launches a choice that can be launched.
std::vector<std::string> launch_words(const TrainingTask& task, const Question& question,
                                      const Choice& choice);

std::string report(const TrainingTask& task, const Question& question, const UnequalResult& result);
/// Returns all of the result.
Json to_json(const TrainingTask& task, const Question& question, const UnequalResult& result);

// Hosts: which ranks of a plan run on which node, for a host file of Open MPI.

/// Consecutive ranks on one node.
struct HostRun {
  int group = 0, node = 0;  // counted from 0
  int ranks = 0;
};
/// Returns the hosts of a plan that can be launched, in the order of ranks: stages, in them
/// pipelines, in them tensor ranks. Nodes are of a rank's type and filled one after the other.
std::vector<HostRun> host_runs(const Cluster& cluster, const UnequalPlan& plan);

/// Whether a node's ranks do not follow each other: the host file then has a line for each rank.
bool needs_line_per_rank(const std::vector<HostRun>& runs);
/// What the host file has, in words.
std::string describe_hosts(const Cluster& cluster, const std::vector<HostRun>& runs);

}  // namespace trireme::layouts
