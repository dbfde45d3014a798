#include "runtime/rank_plan/planned_model.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "runtime/core/show_bytes.h"
#include "runtime/rank_plan/parameter_groups.h"
#include "runtime/rank_plan/plan_cache.h"

namespace trireme {

std::vector<const Plan*> PlannedModel::pointers() const {
  std::vector<const Plan*> all;
  for (const Plan& plan : chunks) all.push_back(&plan);
  return all;
}

Index PlannedModel::scratch_bytes() const {
  Index most = 0;
  for (const Plan& plan : chunks) most = std::max(most, plan.bytes().scratch);
  return most;
}

double PlannedModel::flops() const {
  double sum = 0;
  for (const Plan& plan : chunks) sum += plan.flops();
  return sum;
}

namespace {

/// Times the elements of a bucket it is a number that an Index holds.
constexpr Index most_share = Index{1} << 20;

class PackedCopy final : public Op {
 public:
  std::string name() const override { return "result"; }
  Outputs infer(const Specs& in) const override { return {Spec(in[0].shape, in[0].dtype)}; }
  bool works_in(DType) const override { return true; }
  bool works_on(DeviceKind) const override { return true; }
  bool strided(int) const override { return true; }
  double flops(const Specs&) const override { return 0; }
  void forward(Exec& e) const override { e.stream().copy(e.output(0), e.input(0)); }
  void backward(Exec&) const override {}
};

PlannedModel trace_model(const Forward& trace, const PlanTarget& target) {
  PlannedModel model;
  model.graph = std::make_unique<Graph>(target.coordinate(Role::tensor),
                                        target.spec.mesh.size(Role::tensor), target.spec.compute);
  model.graph->plan_for(target.device);
  model.results = {trace(*model.graph)};
  require(
      model.results.front(),
      "the function of a model returned an empty Value: return the loss (or, for generation, the "
      "logits)");
  return model;
}

void take_metrics(PlannedModel& model) {
  for (const auto& [name, value] : model.graph->metrics()) {
    model.metrics.push_back(name);
    model.results.push_back(value);
  }
}

using Pass = PlannedModel::Pass;
using Backward = PlanOptions::Backward;

/// With its metrics among the results.
PlannedModel trace_with_metrics(const Forward& trace, Pass pass, const PlanTarget& target) {
  const auto make = [&] {
    PlannedModel model = trace_model(trace, target);
    take_metrics(model);
    return model;
  };
  return target.cache != nullptr ? target.cache->trace(pass, target, make) : make();
}

/// `trace`: traced and cut.
PlannedModel cut_model(Pass pass, const PlanTarget& target, FunctionRef<PlannedModel()> trace) {
  const auto make = [&] {
    PlannedModel model = trace();
    const auto mode =
        pass == Pass::train ? PlanOptions::Mode::training : PlanOptions::Mode::forward_only;
    model.basis.emplace(*model.graph, model.results, model.cut, mode);
    if (target.cache != nullptr && model.kinds.empty())
      model.kinds = target.cache->kinds(model, mode);
    return model;
  };
  return target.cache != nullptr ? target.cache->model(pass, target, make) : make();
}

/// `backward`: of each chunk; empty: whole. `check`: of each plan.
void plan_chunks(PlannedModel& model, Pass pass, const PlanTarget& target, PlanOptions::Mode mode,
                 const std::vector<Backward>& backward, FunctionRef<void(const Plan&)> check) {
  const PipelineShape shape = target.pipeline();
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    PlanOptions options{.mode = mode, .guard = target.spec.guard};
    if (!backward.empty()) options.backward = backward.at(static_cast<std::size_t>(chunk));
    const int stage = shape.virtual_stage(target.coordinate(Role::stage), chunk);
    const auto make = [&](int of) {
      return Plan(*model.graph, model.results, model.cut, *model.basis, of, options);
    };
    const bool split = options.backward == Backward::split;
    model.chunks.push_back(target.cache != nullptr
                               ? target.cache->plan(pass, target, model, stage, split, make)
                               : make(stage));
    check(model.chunks.back());
  }
}

/// Parameters are found by their id.
void check_same_parameters(const Graph& graph, const Graph& training) {
  const std::vector<Parameter>& known = training.parameters();
  for (const Parameter& parameter : graph.parameters()) {
    const auto id = static_cast<std::size_t>(parameter.id);
    const Parameter* other = id < known.size() ? &known[id] : nullptr;
    if (other != nullptr && other->name() == parameter.name() &&
        other->spec.shape == parameter.spec.shape)
      continue;
    throw Error(str(
        "parameter ", id, " of a forward-only model is '", parameter.name(), "' ",
        parameter.spec.shape, ", but training has ",
        other != nullptr ? str("'", other->name(), "' ", other->spec.shape) : std::string("fewer"),
        ": declare those that both have first, and in the same order"));
  }
}

/// On stages that hold them for training.
void check_parameters(const PlannedModel& model, const PlannedModel& training, const Plan& plan) {
  if (model.graph != training.graph) check_same_parameters(*model.graph, *training.graph);
  const std::vector<Parameter>& known = training.graph->parameters();
  const auto rank_of = [&](int stage) {
    return training.cut.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  for (const int id : plan.parameters()) {
    const std::set<int>& holders = training.cut.holders[static_cast<std::size_t>(id)];
    require(std::any_of(holders.begin(), holders.end(),
                        [&](int stage) { return rank_of(stage) == rank_of(plan.stage()); }),
            "a forward-only model uses parameter '", known[static_cast<std::size_t>(id)].name(),
            "' in stage ", plan.stage(), ", where training does not: use it in the same block");
  }
}

/// Per block of `training`. One without ops is on the stage of the block before it.
std::vector<int> stages_of_blocks(const PlannedModel& training) {
  std::vector<int> stages(std::max<std::size_t>(1, training.graph->blocks().size()), 0);
  const std::vector<int> blocks = block_of_nodes(*training.graph);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    stages[static_cast<std::size_t>(blocks[i])] = training.cut.stage_of_node[i];
  for (std::size_t i = 1; i < stages.size(); ++i) stages[i] = std::max(stages[i], stages[i - 1]);
  return stages;
}

/// `model` is traced.
void cut_like(PlannedModel& model, const PlannedModel& training) {
  require(model.graph->blocks() == training.graph->blocks(), "a forward-only model has ",
          model.graph->blocks().size(), " blocks where training has ",
          training.graph->blocks().size());
  const std::vector<int> stages = stages_of_blocks(training);
  model.cut.stages = training.cut.stages;
  model.cut.holders = training.cut.holders;
  model.cut.rank_of_stage = training.cut.rank_of_stage;
  for (const int block : block_of_nodes(*model.graph))
    model.cut.stage_of_node.push_back(stages[static_cast<std::size_t>(block)]);
}

/// The result is read on the last stage. Where the last blocks have no ops, a copy brings it there.
void end_on_last_stage(PlannedModel& model) {
  Value& result = model.results.front();
  const int node = model.graph->values()[static_cast<std::size_t>(result.id())].node;
  const int last = model.cut.stages - 1;
  if (node >= 0 && model.cut.stage_of_node[static_cast<std::size_t>(node)] == last) return;
  result = packed_copy(result);
  model.cut.stage_of_node.push_back(last);
}

PlannedModel plan_cut(PlannedModel model, Pass pass, const PlanTarget& target,
                      const PlannedModel& training) {
  plan_chunks(model, pass, target, PlanOptions::Mode::forward_only, {},
              [&](const Plan& plan) { check_parameters(model, training, plan); });
  return model;
}

PlannedModel without_chunks(const PlannedModel& model) {
  return {model.graph, model.results, model.metrics, model.cut, {}, model.kinds, {}};
}

/// Of each virtual stage: that of its rank.
std::vector<double> speeds_of_stages(const TrainingSpec& spec, const PipelineShape& shape) {
  const std::vector<double>& speeds = spec.stage_speeds;
  if (speeds.empty()) return {};
  require(static_cast<int>(speeds.size()) == shape.stages, "--stage-speeds are ", speeds.size(),
          speeds.size() == 1 ? " speed" : " speeds", " for ", shape.stages,
          shape.stages == 1 ? " pipeline rank" : " pipeline ranks",
          "; give one for each pipeline rank");
  std::vector<double> of_stages;
  for (int v = 0; v < shape.virtual_stages(); ++v)
    of_stages.push_back(speeds[static_cast<std::size_t>(shape.stage_of(v))]);
  return of_stages;
}

}  // namespace

Value packed_copy(const Value& result) { return result.apply<PackedCopy>(); }

PlannedModel plan_training(const Forward& trace, const PlanTarget& target,
                           const std::vector<Backward>& backward) {
  PlannedModel model = cut_model(Pass::train, target, [&] {
    PlannedModel cut = trace_with_metrics(trace, Pass::train, target);
    assign_groups(*cut.graph, target.spec);
    const PipelineShape shape = target.pipeline();
    cut.cut = cut_stages(*cut.graph, cut.results, shape.virtual_stages(),
                         speeds_of_stages(target.spec, shape));
    for (int v = 0; v < shape.virtual_stages(); ++v)
      cut.cut.rank_of_stage.push_back(shape.stage_of(v));
    return cut;
  });
  plan_chunks(model, Pass::train, target, PlanOptions::Mode::training, backward,
              [](const Plan&) {});
  return model;
}

PlannedModel plan_forward(const Forward& trace, const PlanTarget& target,
                          const PlannedModel& training, PlannedModel::Pass pass) {
  PlannedModel model = cut_model(pass, target, [&] {
    PlannedModel cut = trace_model(trace, target);
    cut_like(cut, training);
    end_on_last_stage(cut);
    return cut;
  });
  return plan_cut(std::move(model), pass, target, training);
}

PlannedModel plan_evaluation(const Forward& trace, const PlanTarget& target,
                             const PlannedModel& training) {
  PlannedModel model = cut_model(Pass::evaluate, target, [&] {
    PlannedModel cut =
        trace ? trace_with_metrics(trace, Pass::evaluate, target) : without_chunks(training);
    if (trace) cut_like(cut, training);
    return cut;
  });
  return plan_cut(std::move(model), Pass::evaluate, target, training);
}

void check_optimizer_shares(const TrainingSpec& spec) {
  const DataShares& shares = spec.optimizer_shares;
  if (shares.empty()) return;
  const auto ranks = static_cast<std::size_t>(spec.mesh.size(Role::batch));
  require(spec.update == Update::sharded, "--optimizer-shares ", describe(shares),
          " divide a sharded update, and this one is replicated");
  require(shares.size() == ranks, "--optimizer-shares ", describe(shares), " are ", shares.size(),
          shares.size() == 1 ? " share for " : " shares for ", ranks,
          ranks == 1 ? " data rank" : " data ranks", "; give one share for each data rank");
  for (const Index share : shares)
    require(share >= 0 && share <= most_share, "--optimizer-shares ", describe(shares),
            ": each share has to be a whole number from 0 to ", most_share, ", not ", share);
  require(sum_of_shares(shares, 0) > 0, "--optimizer-shares ", describe(shares),
          ": one of them has to be more than 0");
}

FlatOptions flat_options(const TrainingSpec& spec, int rank) {
  check_optimizer_shares(spec);
  FlatOptions flat;
  flat.bucket_bytes = spec.bucket_size * size_bytes(DType::f32);
  flat.data_rank = spec.mesh.coordinate(rank, Role::shard);
  flat.data_size = spec.mesh.size(Role::shard);
  flat.update = spec.update;
  flat.compute = spec.compute;
  const DataShares& shares = spec.optimizer_shares;
  if (std::adjacent_find(shares.begin(), shares.end(), std::not_equal_to<>()) != shares.end())
    flat.shares = shares;
  return flat;
}

std::string largest_tensors(const PlannedModel& model, int count) {
  std::vector<std::pair<Index, std::string>> all;
  for (const Plan& plan : model.chunks) {
    for (const Instance& instance : plan.instances())
      all.emplace_back(instance.bytes, instance.name);
    for (const int id : plan.parameters()) {
      const Parameter& parameter = model.graph->parameters()[static_cast<std::size_t>(id)];
      all.emplace_back(parameter.spec.bytes(), "parameter " + parameter.name());
    }
  }
  const auto shown = std::min(all.size(), static_cast<std::size_t>(count));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), all.end(),
                    std::greater<>());
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}    {:>10}  {}", i == 0 ? "" : "\n", show_bytes(all[i].first),
                        all[i].second);
  return text;
}

}  // namespace trireme
