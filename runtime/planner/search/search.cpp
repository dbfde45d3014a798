#include "runtime/planner/search/search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "trireme/core/error.h"

namespace trireme::planner {
namespace {

/// What its time is from.
enum class Known { products, pieces, simulation, plan };

/// A layout that waits for its turn.
struct Waiting {
  double seconds;
  Known known;
  std::size_t index;  // in SearchResult::considered

  friend bool operator>(const Waiting& a, const Waiting& b) {
    if (a.seconds != b.seconds) return a.seconds > b.seconds;
    return a.index > b.index;  // the same order on every machine
  }
};

using Queue = std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>>;
using Ranks = LayoutPlanner::Ranks;

/// What a user sees as one layout: ZeRO, sequence parallelism and pieces of the head are details.
using Essence = std::tuple<int, int, int, int, Index, ScheduleKind, RecomputeGranularity>;

Essence essence_of(const Layout& l) {
  return {l.tensor, l.pipeline, l.chunks, l.data, l.micro_batch, l.schedule, l.recompute};
}

Index limit_of(const GpuGroup& group, double margin) {
  return static_cast<Index>((1 - margin) * static_cast<double>(group.profile.memory));
}

}  // namespace

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::state:
      return "state";
    case Verdict::estimate:
      return "estimate";
    case Verdict::memory:
      return "memory";
    case Verdict::impossible:
      return "impossible";
    case Verdict::slower:
      return "slower";
  }
  return "";
}

int SearchResult::count(Verdict verdict) const {
  return static_cast<int>(std::count_if(considered.begin(), considered.end(),
                                        [&](const Considered& c) { return c.verdict == verdict; }));
}

struct Searcher::State {
  State(const TrainingTask& task_, const DeviceTraits& device)
      : task(task_), planner(transformer_models(task_.model()), device, {}, programs) {}

  const Evaluated& evaluate(const Layout& layout, const GpuGroup& group, Ranks ranks = Ranks::all) {
    const Key key{describe(layout), rates_of(group, group.network.port.bytes_per_s), ranks};
    std::optional<Evaluated>& known = evaluated[key];
    if (known) return *known;
    known = Evaluated{layout, planner.plan(task.candidate(layout), ranks), {}, 0};
    known->time = step_time(known->plan, group.profile, group.network);
    known->bytes = device_bytes(known->plan, group.profile);
    // Most of the memory of a search, which keeps all that it evaluates.
    known->plan.stages.clear();
    known->plan.programs.reset();
    return *known;
  }

  /// Of one sample; asks for a plan of the whole model.
  double flops() {
    if (flops_per_sample == 0)
      flops_per_sample = planner.flops_per_sample(task.options().compute());
    return flops_per_sample;
  }

  /// What times depend on, of groups that one searcher is asked about.
  using Rates = std::tuple<std::string, int, double, double>;
  using Key = std::tuple<std::string, Rates, Ranks>;

  /// `port`: 0 where it does not count.
  static Rates rates_of(const GpuGroup& group, double port) {
    return {group.profile.name, group.per_node, port, group.profile.node.bytes_per_s};
  }

  /// `tensor`: of the largest tensor group, which the network between nodes concerns if it is not
  /// inside one. Data traffic is not in what an estimator keeps.
  Estimator& estimator_of(const GpuGroup& group, Index tensor) {
    const Rates rates =
        rates_of(group, tensor > group.per_node ? group.network.port.bytes_per_s : 0);
    std::unique_ptr<Estimator>& known = estimators[rates];
    if (!known) known = std::make_unique<Estimator>(task, group.profile, group.network, programs);
    return *known;
  }

  const TrainingTask& task;
  const std::shared_ptr<ProgramCache> programs = std::make_shared<ProgramCache>();
  LayoutPlanner planner;
  double flops_per_sample = 0;  // 0: not known yet
  std::map<Rates, std::unique_ptr<Estimator>> estimators;
  std::map<Key, std::optional<Evaluated>> evaluated;
};

namespace {

/// One search, over one list of layouts.
class Search {
 public:
  using Evaluate = std::function<Evaluated(const Layout&, Ranks)>;

  Search(const TrainingTask& task, const GpuGroup& group, const SearchAim& aim, double flops,
         Estimator& estimator, Evaluate evaluate)
      : task_(task),
        group_(group),
        aim_(aim),
        flops_(flops),
        estimator_(estimator),
        evaluate_(std::move(evaluate)) {}

  SearchResult run() {
    result_.limit = limit_of(group_, aim_.margin);
    LayoutList list = list_layouts(task_, {group_.gpus(), group_.per_node}, aim_.pins);
    result_.illegal = std::move(list.illegal);
    for (const Layout& layout : list.legal) enter(layout);
    while (!queue_.empty() && std::ssize(result_.best) < aim_.best) {
      const Waiting next = queue_.top();
      queue_.pop();
      take(next);
    }
    return std::move(result_);
  }

 private:
  void enter(const Layout& layout) {
    const Candidate candidate = task_.candidate(layout);
    Considered each;
    each.layout = layout;
    each.least_bytes = estimator_.state_bytes(layout, candidate.spec);
    each.least_seconds = least_step_time(candidate, flops_, group_.profile);
    if (each.least_bytes > result_.limit)
      each.verdict = Verdict::state;
    else
      queue_.push({each.least_seconds, Known::products, result_.considered.size()});
    result_.considered.push_back(std::move(each));
  }

  void take(const Waiting& next) {
    Considered& each = result_.considered[next.index];
    // The fastest of those that differ in details may be known.
    if (finished_.count(essence_of(each.layout)) > 0) return;
    switch (next.known) {
      case Known::products:
        return estimate(next.index, each);
      case Known::pieces:
        return simulate(next.index, each);
      case Known::simulation:
        return plan(next.index, each);
      case Known::plan:
        return finish(each);
    }
  }

  /// Nothing, and a verdict, where the model cannot be cut so.
  std::optional<Evaluated> planned(Considered& each, Ranks ranks) const {
    try {
      return evaluate_(each.layout, ranks);
    } catch (const Error& error) {
      each.verdict = Verdict::impossible;
      each.problem = error.what();
      return std::nullopt;
    }
  }

  /// Of layouts that differ in details only, the first is among the best.
  void finish(Considered& each) {
    if (!aim_.all_ranks) return take_as_best(each);
    std::optional<Evaluated> all = planned(each, Ranks::all);
    if (!all) return;
    Evaluated& made = result_.evaluated[static_cast<std::size_t>(each.evaluated)];
    made = std::move(*all);
    if (made.bytes > result_.limit) {
      each.verdict = Verdict::memory;
      return;
    }
    take_as_best(each);
  }

  void take_as_best(const Considered& each) {
    finished_.insert(essence_of(each.layout));
    result_.best.push_back(static_cast<std::size_t>(each.evaluated));
  }

  void estimate(std::size_t index, Considered& each) {
    const Estimator::Least least =
        estimator_.least(each.layout, task_.candidate(each.layout).spec, group_.network);
    each.least_bytes = std::max(each.least_bytes, least.bytes);
    each.least_seconds = std::max(each.least_seconds, least.seconds);
    if (each.least_bytes > result_.limit)
      each.verdict = Verdict::estimate;
    else
      queue_.push({each.least_seconds, Known::pieces, index});
  }

  void simulate(std::size_t index, Considered& each) {
    const TrainingSpec spec = task_.candidate(each.layout).spec;
    each.least_seconds =
        std::max(each.least_seconds, estimator_.simulated(each.layout, spec, group_.network));
    queue_.push({each.least_seconds, Known::simulation, index});
  }

  void plan(std::size_t index, Considered& each) {
    std::optional<Evaluated> one = planned(each, Ranks::one);
    if (!one) return;
    result_.evaluated.push_back(std::move(*one));
    const Evaluated& made = result_.evaluated.back();
    each.evaluated = static_cast<int>(result_.evaluated.size()) - 1;
    each.verdict = made.bytes > result_.limit ? Verdict::memory : Verdict::fits;
    if (each.verdict == Verdict::fits) queue_.push({made.time.total, Known::plan, index});
  }

  const TrainingTask& task_;
  const GpuGroup& group_;
  const SearchAim& aim_;
  const double flops_;
  Estimator& estimator_;
  const Evaluate evaluate_;
  Queue queue_;
  std::set<Essence> finished_;
  SearchResult result_;
};

}  // namespace

Searcher::Searcher(const TrainingTask& task, const DeviceTraits& device)
    : state_(std::make_unique<State>(task, device)) {}
Searcher::~Searcher() = default;

SearchResult Searcher::search(const GpuGroup& group, const SearchAim& aim) {
  return Search(state_->task, group, aim, state_->flops(),
                state_->estimator_of(group, aim.pins.tensor.value_or(1)),
                [&](const Layout& layout, Ranks ranks) {
                  return state_->evaluate(layout, group, ranks);
                })
      .run();
}

double Searcher::least_seconds(const Layout& layout, const GpuGroup& group) {
  return state_->estimator_of(group, layout.tensor)
      .least(layout, state_->task.candidate(layout).spec, group.network)
      .seconds;
}

Evaluated Searcher::evaluate(const Layout& layout, const GpuGroup& group) {
  return state_->evaluate(layout, group);
}

std::optional<Evaluated> Searcher::explain(const GpuGroup& group, const LayoutPins& pins,
                                           Index limit, std::string& why) {
  const LayoutList list = list_layouts(state_->task, {group.gpus(), group.per_node}, pins);
  if (list.legal.empty()) {
    why = list.illegal.empty()
              ? str("no layout has these words on ", group.gpus(), " ", group.unit(), "s")
              : list.illegal.front().problem;
    return std::nullopt;
  }
  Estimator& estimator = state_->estimator_of(group, pins.tensor.value_or(1));
  const Layout* best = nullptr;
  double best_seconds = std::numeric_limits<double>::infinity();
  bool best_fits = false;
  for (const Layout& layout : list.legal) {
    const Candidate candidate = state_->task.candidate(layout);
    const Estimator::Least least = estimator.least(layout, candidate.spec, group.network);
    const double seconds =
        std::max(least.seconds, least_step_time(candidate, state_->flops(), group.profile));
    const bool fits = least.bytes <= limit;
    if (best != nullptr && (best_fits != fits ? best_fits : best_seconds <= seconds)) continue;
    best = &layout;
    best_seconds = seconds;
    best_fits = fits;
  }
  return state_->evaluate(*best, group);
}

}  // namespace trireme::planner
