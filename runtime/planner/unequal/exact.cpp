#include "runtime/planner/unequal/exact.h"

#include <algorithm>
#include <map>

#include "runtime/core/at.h"

namespace trireme::planner {

bool KindFacts::fits() const {
  for (std::size_t s = 0; s < bytes.size(); ++s)
    if (bytes[s] > limits[s]) return false;
  return true;
}

bool ExactPlan::fits() const {
  return std::all_of(kinds.begin(), kinds.end(), [](const KindFacts& kind) { return kind.fits(); });
}

ExactPlan ExactPlanner::plan(const UnequalPlan& plan) {
  std::vector<KindFacts> kinds;
  for (const PipelineKind& kind : plan.kinds)
    kinds.push_back(facts_of(plan, kind, kind.share.most()));
  return put_together(plan, std::move(kinds));
}

double ExactPlanner::seconds_of_equal_shares(const UnequalPlan& plan) {
  const Index all = task_.options().global_batch_size / plan.layout.micro_batch;
  const Index most = (all + plan.layout.data - 1) / plan.layout.data;
  std::vector<KindFacts> kinds;
  for (const PipelineKind& kind : plan.kinds) kinds.push_back(facts_of(plan, kind, most));
  return put_together(plan, std::move(kinds)).seconds;
}

ExactPlan ExactPlanner::put_together(const UnequalPlan& plan, std::vector<KindFacts> kinds) {
  ExactPlan exact{plan, {plan.shares(), cut_.speeds_for(plan.kinds.front().blocks)}, {}, 0};
  double busy = 0, rest = 0;
  for (const KindFacts& kind : kinds) {
    busy = std::max(busy, kind.busy());
    rest = std::max(rest, kind.rest());
  }
  exact.seconds = busy + rest;
  exact.kinds = std::move(kinds);
  return exact;
}

std::string ExactPlanner::problem_of(const UnequalPlan& plan) {
  for (const PipelineKind& kind : plan.kinds) {
    Layout layout = plan.layout;
    layout.pipeline = kind.stages();
    const auto problems = task_.problems_of(layout, {plan.shares(), cut_.speeds_for(kind.blocks)});
    if (!problems.empty()) return problems.front();
  }
  return "";
}

Network ExactPlanner::network_of(const UnequalPlan& plan, const PipelineKind& kind) const {
  Network network = types_[at(kind.types.front())].group().network;
  for (const PipelineKind& each : plan.kinds)
    for (const int type : each.types) {
      // Rings and messages between types are as fast as the slowest port.
      const Link& port = types_[at(type)].group().network.port;
      network.port.bytes_per_s = std::min(network.port.bytes_per_s, port.bytes_per_s);
      network.port.latency = std::max(network.port.latency, port.latency);
    }
  for (const int type : kind.types) {
    network.ranks_per_node =
        std::min(network.ranks_per_node, types_[at(type)].group().network.ranks_per_node);
    // Replicas of another kind are on other nodes.
    if (plan.kinds.size() > 1)
      network.ranks_per_node = std::min(network.ranks_per_node, kind.count * plan.layout.tensor);
  }
  return network;
}

KindFacts ExactPlanner::facts_of(const UnequalPlan& plan, const PipelineKind& kind,
                                 Index micro_batches) {
  Layout layout = plan.layout;
  layout.pipeline = kind.stages();
  Candidate candidate = task_.candidate(layout, {{}, cut_.speeds_for(kind.blocks)});
  candidate.spec.global_batch_size = layout.data * micro_batches * layout.micro_batch;
  std::map<int, PlannedLayout> planned;  // by type
  for (const int type : kind.types)
    if (planned.count(type) == 0) planned.emplace(type, types_[at(type)].plan(candidate));
  PlannedLayout whole = planned.begin()->second;
  std::vector<const Profile*> profiles;
  KindFacts facts;
  for (int s = 0; s < kind.stages(); ++s) {
    const int type = kind.types[at(s)];
    const PlannedLayout& own = planned.at(type);
    whole.stages[at(s)] = own.stages[at(s)];
    const Profile& profile = types_[at(type)].group().profile;
    profiles.push_back(&profile);
    Index most = 0;
    for (const PlannedRank& rank : own.ranks)
      if (rank.stage == s) most = std::max(most, rank.need.device());
    facts.bytes.push_back(most + profile.context_bytes +
                          own.communicators() * profile.communicator_bytes);
    facts.limits.push_back(types_[at(type)].limit());
  }
  facts.time = step_time(whole, profiles, network_of(plan, kind));
  return facts;
}

}  // namespace trireme::planner
