#include "runtime/planner/unequal/exact.h"

#include <algorithm>
#include <map>

#include "runtime/core/at.h"
#include "runtime/optim/optimizer.h"

namespace trireme::planner {

namespace {

/// Whether the rank has as much of the optimizer as those that are timed.
bool has_slice_of(const Candidate& timed, const PlannedRank& rank) {
  const DataShares& shares = timed.spec.optimizer_shares;
  return shares.empty() || shares[at(timed.spec.mesh.coordinate(rank.rank, Axis::data))] ==
                               shares[at(timed.data_rank.value())];
}

/// By the last stage of `facts`.
void limit_updates(const PlannedTraining& stage, const Profile& profile, KindFacts& facts) {
  const FlatLayout& flat = stage.flat;
  const auto moments = static_cast<Index>(Optimizer::state_names(stage.spec.optimizer).size());
  const Index numbers = moments + (flat.has_copy() ? 1 : 0);  // of a parameter, with its master
  const Index all = flat.trained_count() * numbers * size_bytes(DType::f32);
  const Index own = flat.state_count() * numbers * size_bytes(DType::f32);
  const Index free = facts.limits.back() - facts.bytes.back() + own;
  const double bytes = update_cost(stage.spec.optimizer, stage.spec.compute).bytes;
  Updaters& updates = facts.updates;
  updates.seconds = std::max(updates.seconds, bytes * static_cast<double>(flat.trained_count()) /
                                                  profile.loop_rate("update", false));
  if (all > 0)
    updates.most = std::min(updates.most, static_cast<double>(free) / static_cast<double>(all));
}

/// For unequal slices; empty: equal ones are as good, or all have too little memory together.
DataShares optimizer_shares(const ExactPlan& equal) {
  constexpr double worth_it = 0.002;  // of a step
  constexpr double rounded = 0.94;    // of what memory holds: whole_shares()
  const UnequalPlan& plan = equal.plan;
  if (!plan.layout.sharded || plan.kinds.size() < 2) return {};
  std::vector<Updaters> kinds;
  for (std::size_t k = 0; k < plan.kinds.size(); ++k) {
    kinds.push_back(equal.kinds[k].updates);
    kinds.back().count = plan.kinds[k].count;
    kinds.back().most *= rounded;
  }
  const auto parts = share_slices(kinds);
  if (!parts) return {};
  double slowest = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    slowest = std::max(slowest, (*parts)[k] * kinds[k].seconds);
  const double gain = seconds_of_equal_slices(kinds) - slowest;
  if (equal.fits() && gain < worth_it * equal.seconds) return {};
  const std::vector<Index> whole = whole_shares(*parts);
  DataShares shares;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    shares.insert(shares.end(), at(kinds[k].count), whole[k]);
  return shares;
}

}  // namespace

bool KindFacts::fits() const {
  for (std::size_t s = 0; s < bytes.size(); ++s)
    if (bytes[s] > limits[s]) return false;
  return true;
}

bool ExactPlan::fits() const {
  return std::all_of(kinds.begin(), kinds.end(), [](const KindFacts& kind) { return kind.fits(); });
}

double ExactPlan::slice(std::size_t kind) const {
  if (!plan.layout.sharded) return 1;
  if (parts.optimizer.empty()) return 1.0 / plan.layout.data;
  const double all = static_cast<double>(sum_of_shares(parts.optimizer, 0));
  return static_cast<double>(parts.optimizer[at(plan.first_of(kind))]) / all;
}

ExactPlan ExactPlanner::plan(const UnequalPlan& plan) {
  ExactPlan equal = plan_with(plan, {});
  const DataShares shares = optimizer_shares(equal);
  if (shares.empty()) return equal;
  ExactPlan unequal = plan_with(plan, shares);
  const bool better = unequal.fits() && (!equal.fits() || unequal.seconds < equal.seconds);
  return better ? unequal : equal;
}

ExactPlan ExactPlanner::plan_with(const UnequalPlan& plan, const DataShares& optimizer) {
  std::vector<KindFacts> kinds;
  for (std::size_t k = 0; k < plan.kinds.size(); ++k)
    kinds.push_back(facts_of(plan, k, plan.kinds[k].share.most(), optimizer));
  return put_together(plan, std::move(kinds), optimizer);
}

double ExactPlanner::seconds_of_equal_shares(const UnequalPlan& plan) {
  const Index all = task_.options().global_batch_size / plan.layout.micro_batch;
  const Index most = (all + plan.layout.data - 1) / plan.layout.data;
  std::vector<KindFacts> kinds;
  for (std::size_t k = 0; k < plan.kinds.size(); ++k) kinds.push_back(facts_of(plan, k, most));
  return put_together(plan, std::move(kinds)).seconds;
}

ExactPlan ExactPlanner::put_together(const UnequalPlan& plan, std::vector<KindFacts> kinds,
                                     const DataShares& optimizer) {
  ExactPlan exact{
      plan, {plan.shares(), cut_.speeds_for(plan.kinds.front().blocks), optimizer}, {}, 0};
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

KindFacts ExactPlanner::facts_of(const UnequalPlan& plan, std::size_t k, Index micro_batches,
                                 const DataShares& optimizer) {
  const PipelineKind& kind = plan.kinds[k];
  Layout layout = plan.layout;
  layout.pipeline = kind.stages();
  Candidate candidate = task_.candidate(layout, {{}, cut_.speeds_for(kind.blocks), optimizer});
  if (!optimizer.empty()) candidate.data_rank = plan.first_of(k);
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
      if (rank.stage == s && has_slice_of(candidate, rank))
        most = std::max(most, rank.need.device());
    facts.bytes.push_back(most + profile.context_bytes +
                          own.communicators() * profile.communicator_bytes);
    facts.limits.push_back(types_[at(type)].limit());
    limit_updates(*own.stages[at(s)], profile, facts);
  }
  facts.time = step_time(whole, profiles, network_of(plan, kind));
  return facts;
}

}  // namespace trireme::planner
