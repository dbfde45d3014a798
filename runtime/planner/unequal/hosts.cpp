#include "runtime/planner/unequal/hosts.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "runtime/core/at.h"

namespace trireme::planner {
namespace {

void add(std::vector<HostRun>& runs, const HostRun& more) {
  if (!runs.empty() && runs.back().group == more.group && runs.back().node == more.node)
    runs.back().ranks += more.ranks;
  else
    runs.push_back(more);
}

/// Whether both are of other nodes of one group, with equally many ranks.
bool alike(const HostRun& a, const HostRun& b) { return a.group == b.group && a.ranks == b.ranks; }

std::string describe_run(const Cluster& cluster, const HostRun& run) {
  return fmt::format("{} of node {} of {}", run.ranks, run.node + 1,
                     cluster.groups[at(run.group)].gpu);
}

}  // namespace

std::vector<HostRun> host_runs(const Cluster& cluster, const UnequalPlan& plan) {
  std::vector<HostRun> runs;
  std::vector<int> used(cluster.groups.size(), 0);
  for (int stage = 0; stage < plan.kinds.front().stages(); ++stage)
    for (const PipelineKind& kind : plan.kinds) {
      const int group = kind.types[at(stage)];
      const int per_node = cluster.groups[at(group)].per_node;
      for (int left = kind.count * plan.layout.tensor; left > 0;) {
        const int free = per_node - used[at(group)] % per_node, ranks = std::min(left, free);
        add(runs, {group, used[at(group)] / per_node, ranks});
        used[at(group)] += ranks;
        left -= ranks;
      }
    }
  return runs;
}

bool needs_line_per_rank(const std::vector<HostRun>& runs) {
  std::set<std::pair<int, int>> seen;
  return std::any_of(runs.begin(), runs.end(), [&](const HostRun& run) {
    return !seen.insert({run.group, run.node}).second;
  });
}

std::string describe_hosts(const Cluster& cluster, const std::vector<HostRun>& runs) {
  std::string text;
  if (needs_line_per_rank(runs)) {
    for (const HostRun& run : runs) text += (text.empty() ? "" : ", ") + describe_run(cluster, run);
    return "a line for each rank with the name of its node: " + text;
  }
  for (auto run = runs.begin(); run != runs.end();) {
    const auto end =
        std::find_if(run, runs.end(), [&](const HostRun& r) { return !alike(r, *run); });
    text += fmt::format("{}{} of {} with slots={}", text.empty() ? "" : ", then ", end - run,
                        cluster.groups[at(run->group)].gpu, run->ranks);
    run = end;
  }
  return "a line for each node: " + text;
}

}  // namespace trireme::planner
