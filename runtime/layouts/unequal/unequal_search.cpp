#include "runtime/layouts/unequal/unequal_search.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/core/error.h"

#include "runtime/core/at.h"
#include "runtime/layouts/unequal/families.h"
#include "runtime/layouts/unequal/kinds.h"
#include "runtime/optim/optimizer.h"

namespace trireme::layouts {
namespace {

/// Exact plans that one choice of groups may take; those of all together.
constexpr int most_plans_of_subset = 40, most_plans = 300;

/// What a user sees as one plan; its last part is what may need more memory.
std::string frame_of(const UnequalPlan& plan) {
  std::string text = fmt::format("{} {}", name(plan.family), plan.layout.tensor);
  for (const PipelineKind& kind : plan.kinds)
    text += fmt::format(" {}x{}", kind.count, fmt::join(kind.types, ","));
  return text;
}

std::string essence_of(const UnequalPlan& plan) {
  return fmt::format("{} {} {}", frame_of(plan), plan.layout.micro_batch,
                     name(plan.layout.recompute));
}

/// A plan that waits for its turn. `limits`: blocks of its stages at most, as exact plans said.
struct WaitingMix {
  UnequalPlan plan;
  std::vector<Index> limits;

  friend bool operator>(const WaitingMix& a, const WaitingMix& b) {
    return a.plan.estimate > b.plan.estimate;
  }
};

/// Plans exactly, in order of estimates.
class MixQueue {
 public:
  MixQueue(ExactPlanner& planner, std::vector<GpuType>& types, Index blocks)
      : planner_(planner), types_(types), blocks_(blocks) {}

  void add(const UnequalPlan& plan) { queue_.push({plan, {}}); }
  bool empty() const { return queue_.empty(); }
  double least() const { return queue_.top().plan.estimate; }
  int planned() const { return planned_; }
  int refused() const { return refused_; }

  /// The next one; nothing: it is not possible, or one alike but for details was there.
  std::optional<Choice> next() {
    const WaitingMix waiting = queue_.top();
    queue_.pop();
    if (known_.count(essence_of(waiting.plan)) > 0 || needs_more_than_refused(waiting.plan))
      return std::nullopt;
    if (!planner_.problem_of(waiting.plan).empty()) return std::nullopt;
    ++planned_;
    ExactPlan exact;
    try {
      exact = planner_.plan(waiting.plan);
    } catch (const Error&) {
      return std::nullopt;
    }
    if (!exact.fits()) {
      refuse(waiting, exact);
      return std::nullopt;
    }
    known_.insert(essence_of(waiting.plan));
    return Choice{waiting.plan.groups(), exact.seconds, std::move(exact), std::nullopt,
                  why_not_launched(waiting.plan)};
  }

 private:
  /// An unequal cut may be moved to where it fits; a pipeline with fewer blocks on the stages that
  /// were too full is as fast as any that fits.
  void refuse(const WaitingMix& waiting, const ExactPlan& exact) {
    ++refused_;
    if (waiting.plan.family != Family::pipeline) {
      refusals_.push_back(waiting.plan);
      return;
    }
    WaitingMix moved = waiting;
    PipelineKind& kind = moved.plan.kinds.front();
    moved.limits.resize(at(kind.stages()), blocks_);
    for (std::size_t s = 0; s < moved.limits.size(); ++s)
      if (exact.kinds.front().bytes[s] > exact.kinds.front().limits[s])
        moved.limits[s] = std::min<Index>(moved.limits[s], kind.blocks[s] - 1);
    auto cut = cut_pipeline(types_, kind.types, moved.plan.layout, blocks_, moved.limits);
    if (!cut) {
      refusals_.push_back(waiting.plan);
      return;
    }
    const auto before = worker_of(types_, kind, moved.plan.layout, 1);
    kind.blocks = cut->blocks;
    const auto after = worker_of(types_, kind, moved.plan.layout, 1);
    const double slower = seconds_of(*after, kind.share) - seconds_of(*before, kind.share);
    moved.plan.estimate += std::max(0.0, slower);
    queue_.push(std::move(moved));
  }

  bool needs_more_than_refused(const UnequalPlan& plan) const {
    return std::any_of(refusals_.begin(), refusals_.end(), [&](const UnequalPlan& other) {
      const Layout &a = other.layout, &b = plan.layout;
      return frame_of(other) == frame_of(plan) && a.micro_batch <= b.micro_batch &&
             a.recompute >= b.recompute && a.head_chunks >= b.head_chunks;
    });
  }

  ExactPlanner& planner_;
  std::vector<GpuType>& types_;
  const Index blocks_;
  std::priority_queue<WaitingMix, std::vector<WaitingMix>, std::greater<>> queue_;
  std::set<std::string> known_;
  std::vector<UnequalPlan> refusals_;
  int planned_ = 0, refused_ = 0;
};

class UnequalSearch {
 public:
  UnequalSearch(const TrainingTask& task, const Cluster& cluster, const SearchAim& aim)
      : task_(task),
        cluster_(cluster),
        aim_(aim),
        types_(gpu_types(task, cluster, aim.margin)),
        cut_(task, cluster.groups.front().profile.device),
        planner_(task, types_, cut_) {}

  UnequalResult run() {
    plans_ = Families(task_, types_, cut_, aim_.pins).list();
    result_.considered = static_cast<int>(plans_.size());
    take_groups_alone();
    take_best();
    take_subsets();
    sort(found_);
    choose();
    return std::move(result_);
  }

 private:
  static void sort(std::vector<Choice>& choices) {
    std::stable_sort(choices.begin(), choices.end(),
                     [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  }

  MixQueue queue() { return {planner_, types_, task_.model().num_layers}; }

  void count(const MixQueue& queue) {
    result_.planned += queue.planned();
    result_.refused += queue.refused();
  }

  /// Empty where the GPUs cannot run the model.
  SearchResult search_alone(const GpuGroup& group, const SearchAim& aim) const {
    try {
      return Searcher(task_, group.profile.device).search(group, aim);
    } catch (const Error&) {
      return {};
    }
  }

  void take_groups_alone() {
    SearchAim one = aim_;
    one.best = 1;
    for (std::size_t g = 0; g < cluster_.groups.size(); ++g) {
      const GpuGroup& group = cluster_.groups[g];
      const SearchResult found = search_alone(group, one);
      result_.considered += static_cast<int>(found.considered.size());
      result_.planned += static_cast<int>(found.evaluated.size());
      if (found.best.empty()) continue;
      const Evaluated& best = found.evaluated[found.best.front()];
      found_.push_back({1U << g, best.time.total, std::nullopt, best, ""});
    }
  }

  /// Until there are so many, one of them can be launched, and no estimate of another is less.
  void take_best() {
    MixQueue all = queue();
    for (const UnequalPlan& plan : plans_) all.add(plan);
    std::vector<double> times;
    bool launched = false;
    while (!all.empty() && all.planned() < most_plans) {
      const auto wanted = static_cast<std::size_t>(aim_.best);
      if (launched && times.size() >= wanted && all.least() >= times[wanted - 1]) break;
      std::optional<Choice> choice = all.next();
      if (!choice) continue;
      launched = launched || choice->not_launched.empty();
      times.insert(std::upper_bound(times.begin(), times.end(), choice->seconds), choice->seconds);
      found_.push_back(std::move(*choice));
    }
    count(all);
  }

  bool has_launched(unsigned groups) const {
    return std::any_of(found_.begin(), found_.end(), [&](const Choice& choice) {
      return choice.groups == groups && choice.not_launched.empty();
    });
  }

  /// One that can be launched for each choice of groups.
  void take_subsets() {
    const unsigned all = (1U << cluster_.groups.size()) - 1;
    for (unsigned groups = 1; groups <= all; ++groups) {
      if (has_launched(groups)) continue;
      MixQueue some = queue();
      for (const UnequalPlan& plan : plans_)
        if (plan.groups() == groups && why_not_launched(plan).empty()) some.add(plan);
      while (!some.empty() && some.planned() < most_plans_of_subset && !has_launched(groups))
        if (std::optional<Choice> choice = some.next()) found_.push_back(std::move(*choice));
      count(some);
    }
  }

  void choose() {
    std::set<unsigned> seen;
    for (const Choice& choice : found_)
      if (choice.not_launched.empty() && seen.insert(choice.groups).second)
        result_.subsets.push_back(choice);
    for (const Choice& choice : found_) {
      const bool full = std::ssize(result_.best) >= aim_.best;
      if (full && (result_.launched >= 0 || !choice.not_launched.empty())) continue;
      if (choice.not_launched.empty() && result_.launched < 0)
        result_.launched = static_cast<int>(result_.best.size());
      result_.best.push_back(choice);
    }
    if (result_.launched < 0) return;
    const Choice& launched = result_.best[at(result_.launched)];
    if (launched.plan) result_.equal_shares = planner_.seconds_of_equal_shares(launched.plan->plan);
  }

  const TrainingTask& task_;
  const Cluster& cluster_;
  const SearchAim& aim_;
  std::vector<GpuType> types_;
  ModelCut cut_;
  ExactPlanner planner_;
  std::vector<UnequalPlan> plans_;
  std::vector<Choice> found_;
  UnequalResult result_;
};

}  // namespace

UnequalResult search_unequal(const TrainingTask& task, const Cluster& cluster,
                             const SearchAim& aim) {
  return UnequalSearch(task, cluster, aim).run();
}

namespace {

/// Whether the rank has as much of the optimizer as those that are timed.
bool has_slice_of(const cost::Candidate& timed, const cost::PlannedRank& rank) {
  const DataShares& shares = timed.spec.optimizer_shares;
  return shares.empty() || shares[at(timed.spec.mesh.coordinate(rank.rank, Role::batch))] ==
                               shares[at(timed.data_rank.value())];
}

/// By the last stage of `facts`.
void limit_updates(const PlannedTraining& stage, const cost::Profile& profile, KindFacts& facts) {
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

cost::Network ExactPlanner::network_of(const UnequalPlan& plan, const PipelineKind& kind) const {
  cost::Network network = types_[at(kind.types.front())].group().network;
  for (const PipelineKind& each : plan.kinds)
    for (const int type : each.types) {
      // Rings and messages between types are as fast as the slowest port.
      const cost::Link& port = types_[at(type)].group().network.port;
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
  cost::Candidate candidate =
      task_.candidate(layout, {{}, cut_.speeds_for(kind.blocks), optimizer});
  if (!optimizer.empty()) candidate.data_rank = plan.first_of(k);
  candidate.spec.global_batch_size = layout.data * micro_batches * layout.micro_batch;
  std::map<int, cost::PlannedLayout> planned;  // by type
  for (const int type : kind.types)
    if (planned.count(type) == 0) planned.emplace(type, types_[at(type)].plan(candidate));
  cost::PlannedLayout whole = planned.begin()->second;
  std::vector<const cost::Profile*> profiles;
  KindFacts facts;
  for (int s = 0; s < kind.stages(); ++s) {
    const int type = kind.types[at(s)];
    const cost::PlannedLayout& own = planned.at(type);
    whole.stages[at(s)] = own.stages[at(s)];
    const cost::Profile& profile = types_[at(type)].group().profile;
    profiles.push_back(&profile);
    Index most = 0;
    for (const cost::PlannedRank& rank : own.ranks)
      if (rank.stage == s && has_slice_of(candidate, rank))
        most = std::max(most, rank.need.device());
    facts.bytes.push_back(most + profile.context_bytes +
                          own.communicators() * profile.communicator_bytes);
    facts.limits.push_back(types_[at(type)].limit());
    limit_updates(*own.stages[at(s)], profile, facts);
  }
  facts.time = cost::step_time(whole, profiles, network_of(plan, kind));
  return facts;
}

}  // namespace trireme::layouts
