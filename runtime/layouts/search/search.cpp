#include "runtime/layouts/search/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "trireme/core/error.h"
#include "trireme/kernels/stream_bytes.h"
#include "trireme/models/transformer.h"
#include "trireme/pipeline/schedule.h"

#include "runtime/core/at.h"
#include "runtime/graph/compile/alike.h"
#include "runtime/layouts/search/least_step.h"
#include "runtime/optim/optimizer.h"
#include "runtime/pipeline/program.h"

namespace trireme::layouts {
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
using Ranks = cost::LayoutPlanner::Ranks;

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
      : task(task_), planner(cost::transformer_models(task_.model()), device, {}, programs) {}

  const Evaluated& evaluate(const Layout& layout, const GpuGroup& group, Ranks ranks = Ranks::all) {
    const Key key{describe(layout), rates_of(group, group.network.port.bytes_per_s), ranks};
    std::optional<Evaluated>& known = evaluated[key];
    if (known) return *known;
    known = Evaluated{layout, planner.plan(task.candidate(layout), ranks), {}, 0};
    known->time = cost::step_time(known->plan, group.profile, group.network);
    known->bytes = cost::device_bytes(known->plan, group.profile);
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
  cost::LayoutPlanner planner;
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
    const cost::Candidate candidate = task_.candidate(layout);
    Considered each;
    each.layout = layout;
    each.least_bytes = estimator_.state_bytes(layout, candidate.spec);
    each.least_seconds = cost::least_step_time(candidate, flops_, group_.profile);
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
    const cost::Candidate candidate = state_->task.candidate(layout);
    const Estimator::Least least = estimator.least(layout, candidate.spec, group.network);
    const double seconds =
        std::max(least.seconds, cost::least_step_time(candidate, state_->flops(), group.profile));
    const bool fits = least.bytes <= limit;
    if (best != nullptr && (best_fits != fits ? best_fits : best_seconds <= seconds)) continue;
    best = &layout;
    best_seconds = seconds;
    best_fits = fits;
  }
  return state_->evaluate(*best, group);
}

namespace {

/// For sums in another order.
constexpr double rounding = 1 - 1e-9;
/// Of slots and scratch: where several blocks share them, values may overlap better than in one.
constexpr double packing = 0.98;

bool splits_backward(ScheduleKind kind) {
  return kind == ScheduleKind::zero_bubble || kind == ScheduleKind::zero_bubble_v;
}

/// Whether all blocks but the first and the last one are alike.
bool has_alike_blocks(const TrainingTask& task, const DeviceTraits& device) {
  Graph graph(0, 1, task.options().compute());
  graph.plan_for(device);
  const Value loss = build_transformer_loss(graph, task.model(), 1);
  const std::vector<int> kinds = block_kinds(graph, {loss}, PlanOptions::Mode::training);
  return kinds.size() < 4 || kinds[1] == kinds[kinds.size() - 2];
}

double seconds_of(const CallCost& call, bool queues) {
  return queues ? std::max(call.device, call.host) : call.device + call.host;
}

/// `blocks` blocks, with the ends of the model that the virtual stage has.
template <class Member>
auto sum_of(const Pieces& pieces, Member member, int blocks, bool first, bool last) {
  auto sum = pieces.middle.*member * (blocks - (first ? 1 : 0) - (last ? 1 : 0));
  if (first) sum += pieces.first.*member;
  if (last) sum += pieces.last.*member;
  return sum;
}

}  // namespace

Estimator::Estimator(const TrainingTask& task, const cost::Profile& profile,
                     const cost::Network& network, std::shared_ptr<ProgramCache> programs)
    : task_(task),
      profile_(profile),
      pieces_(task, profile, network),
      alike_(has_alike_blocks(task, profile.device)),
      programs_(std::move(programs)) {}

const std::vector<int>& Estimator::blocks(int stages, const Pieces& pieces) {
  const auto [known, is_new] =
      blocks_.try_emplace({stages, pieces.first.flops, pieces.middle.flops, pieces.last.flops});
  if (!is_new) return known->second;
  const std::size_t layers = at(task_.model().num_layers);
  std::vector<double> costs(layers, pieces.middle.flops);
  costs.at(0) = pieces.first.flops;
  costs.at(layers - 1) = pieces.last.flops;
  known->second.assign(at(stages), 0);
  for (const int stage : deal_blocks(costs, std::vector<double>(at(stages), 1.0)))
    ++known->second[at(stage)];
  return known->second;
}

std::vector<LeastStage> Estimator::stages(const Layout& layout, const PipelineShape& shape) {
  // No stage waits for gradients of the first one, which makes all at once.
  const Pieces& whole = pieces_.of(layout, false);
  const Pieces& split = splits_backward(layout.schedule) ? pieces_.of(layout, true) : whole;
  const std::vector<int>& counts = blocks(shape.virtual_stages(), whole);
  std::vector<LeastStage> all(at(shape.stages));
  for (int v = 0; v < shape.virtual_stages(); ++v) {
    const bool first = v == 0, last = v + 1 == shape.virtual_stages();
    const Pieces& pieces = first ? whole : split;
    const int count = counts[at(v)];
    const auto of = [&](auto member) { return sum_of(pieces, member, count, first, last); };
    const auto call = [&](auto member) { return seconds_of(of(member), profile_.queues); };
    LeastStage& stage = all[at(shape.stage_of(v))];
    stage.chunks.push_back(
        {call(&Piece::forward), call(&Piece::backward), call(&Piece::parameter_backward)});
    stage.slots.push_back(of(&Piece::slot));
    stage.scratch = std::max({stage.scratch, first ? pieces.first.scratch : pieces.middle.scratch,
                              last ? pieces.last.scratch : 0});
    stage.add(pieces.middle.parameters, count - (first ? 1 : 0) - (last ? 1 : 0));
    if (first) stage.add(pieces.first.parameters, 1);
    if (last) stage.add(pieces.last.parameters, 1);
  }
  if (shape.last_stage() == 0) {  // what the first and the last block share is there once
    PieceParameters& parameters = all.front().parameters;
    parameters.elements -= parameters.tied / 2;
    parameters.tied = 0;
  }
  return all;
}

Estimator::Known& Estimator::known(const Layout& layout, const cost::Network& network) {
  constexpr std::size_t most = 50'000;  // searches of ever more nodes ask for ever more layouts
  if (known_.size() > most) known_.clear();
  return known_[{layout, network.port.bytes_per_s}];
}

Estimator::Least Estimator::least(const Layout& layout, const TrainingSpec& spec,
                                  const cost::Network& network) {
  std::optional<Least>& least = known(layout, network).least;
  if (!least) least = find_least(layout, spec, network);
  return *least;
}

double Estimator::simulated(const Layout& layout, const TrainingSpec& spec,
                            const cost::Network& network) {
  std::optional<double>& seconds = known(layout, network).simulated;
  if (!seconds) seconds = find_simulated(layout, spec, network);
  return *seconds;
}

Estimator::Least Estimator::find_least(const Layout& layout, const TrainingSpec& spec,
                                       const cost::Network& network) {
  if (!is_known(spec)) return {0, state_bytes(layout, spec)};
  const std::vector<LeastStage> all = stages(layout, spec.pipeline(0));
  const double message = pieces_.of(layout, false).message;
  return {rounding * least_step(all, message, spec, profile_, network), bytes(layout, spec, all)};
}

bool Estimator::is_known(const TrainingSpec& spec) const {
  return alike_ && spec.stage_speeds.empty() && spec.data_parallel_shares.empty() &&
         spec.optimizer_shares.empty();
}

double Estimator::find_simulated(const Layout& layout, const TrainingSpec& spec,
                                 const cost::Network& network) {
  if (!is_known(spec)) return 0;
  const PipelineShape shape = spec.pipeline(0);
  return rounding * least_step(stages(layout, shape), pieces_.of(layout, false).message, spec,
                               profile_, network, programs_->train(spec, shape).get());
}

double Estimator::state_of(double elements, const TrainingSpec& spec) const {
  const double moments = static_cast<double>(Optimizer::state_names(spec.optimizer).size());
  const double copy =
      spec.compute == DType::f32 ? 0 : static_cast<double>(size_bytes(spec.compute));
  const double share = spec.update == Update::sharded ? 1.0 / spec.mesh.size(Role::shard) : 1;
  // FlatLayout: with a compute copy a rank keeps the masters that it updates.
  const double masters = copy > 0 ? share : 1;
  return elements * (size_bytes(DType::f32) * (1 + masters + share * moments) + copy);
}

Index Estimator::fixed_bytes(const Layout& layout) const {
  const int axes = (layout.tensor > 1) + (layout.pipeline > 1) + (layout.data > 1);
  const int communicators = axes + (layout.ranks() > 1 ? 1 : 0);
  return gemm_stream_bytes(profile_.device) + profile_.context_bytes +
         communicators * profile_.communicator_bytes;
}

double Estimator::elements(const Layout& layout) {
  const auto [known, is_new] = elements_.try_emplace(layout.tensor, 0);
  if (!is_new) return known->second;
  Layout plain;  // parameters are those of any micro-batch
  plain.tensor = layout.tensor;
  plain.recompute = RecomputeGranularity::full;
  const Pieces& pieces = pieces_.of(plain, false);
  const auto of = [](const Piece& piece) { return piece.parameters.elements; };
  // What the first and the last block share may be there once.
  return known->second = of(pieces.first) + of(pieces.last) - pieces.last.parameters.tied +
                         static_cast<double>(task_.model().num_layers - 2) * of(pieces.middle);
}

Index Estimator::state_bytes(const Layout& layout, const TrainingSpec& spec) {
  const double mean = alike_ && spec.stage_speeds.empty() ? elements(layout) / layout.pipeline : 0;
  return static_cast<Index>(state_of(mean, spec)) + fixed_bytes(layout);
}

const std::vector<int>& Estimator::slots(const Layout& layout, const PipelineShape& shape,
                                         int stage) {
  const auto [known, is_new] =
      slots_.try_emplace({layout.schedule, shape.stages, shape.chunks, shape.micro_batches, stage});
  if (is_new) known->second = slots_of(work_order(layout.schedule, shape, stage), shape.chunks);
  return known->second;
}

Index Estimator::bytes(const Layout& layout, const TrainingSpec& spec,
                       const std::vector<LeastStage>& stages) {
  const PipelineShape shape = spec.pipeline(0);
  double most = 0;
  // The first one has most slots in most schedules, the last one the head.
  for (const int stage : {0, shape.stages - 1}) {
    const LeastStage& each = stages[at(stage)];
    const std::vector<int>& counts = slots(layout, shape, stage);
    double activations = each.scratch;
    for (std::size_t chunk = 0; chunk < counts.size(); ++chunk)
      activations += counts[chunk] * each.slots[chunk];
    most = std::max(most, state_of(each.parameters.elements, spec) + packing * activations);
  }
  const double constants = pieces_.of(layout, false).constants;
  return std::max(state_bytes(layout, spec),
                  static_cast<Index>(most + constants) + fixed_bytes(layout));
}

}  // namespace trireme::layouts
