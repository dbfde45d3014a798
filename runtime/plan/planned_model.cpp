#include "runtime/plan/planned_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/core/show_bytes.h"

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
  model.graph = std::make_unique<Graph>(target.coordinate(Axis::tensor),
                                        target.spec.mesh.size(Axis::tensor), target.spec.compute);
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

void plan_chunks(PlannedModel& model, const PlanTarget& target, PlanOptions options) {
  const int stages = target.spec.mesh.size(Axis::pipeline);
  options.guard = target.spec.guard;
  for (int chunk = 0; chunk < model.cut.stages / stages; ++chunk)
    model.chunks.emplace_back(*model.graph, model.results, model.cut,
                              chunk * stages + target.coordinate(Axis::pipeline), options);
}

/// Parameters are found by their id, on stages that hold them for training.
void check_parameters(const PlannedModel& model, const PlannedModel& training, int stages) {
  const std::vector<Parameter>& known = training.graph->parameters();
  for (const Parameter& parameter : model.graph->parameters()) {
    const auto id = static_cast<std::size_t>(parameter.id);
    require(id < known.size() && known[id].name() == parameter.name() &&
                known[id].spec.shape == parameter.spec.shape,
            "parameter ", id, " of a forward-only model is '", parameter.name(), "' ",
            parameter.spec.shape, ", but training has ",
            id < known.size() ? str("'", known[id].name(), "' ", known[id].spec.shape)
                              : std::string("fewer"),
            ": declare those that both have first, and in the same order");
  }
  for (const Plan& plan : model.chunks)
    for (const int id : plan.parameters()) {
      const std::set<int>& holders = training.cut.holders[static_cast<std::size_t>(id)];
      require(std::any_of(holders.begin(), holders.end(),
                          [&](int stage) { return stage % stages == plan.stage() % stages; }),
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

/// `model` is cut.
PlannedModel plan_cut(PlannedModel model, const PlanTarget& target, const PlannedModel& training) {
  plan_chunks(model, target, {.mode = PlanOptions::Mode::forward_only});
  check_parameters(model, training, target.spec.mesh.size(Axis::pipeline));
  return model;
}

}  // namespace

Value packed_copy(const Value& result) { return result.apply<PackedCopy>(); }

PlannedModel plan_training(const Forward& trace, const PlanTarget& target,
                           PlanOptions::Backward backward) {
  PlannedModel model = trace_model(trace, target);
  take_metrics(model);
  model.cut = cut_stages(*model.graph, model.results, target.spec.pipeline().virtual_stages());
  plan_chunks(model, target, {.mode = PlanOptions::Mode::training, .backward = backward});
  return model;
}

PlannedModel plan_forward(const Forward& trace, const PlanTarget& target,
                          const PlannedModel& training) {
  PlannedModel model = trace_model(trace, target);
  cut_like(model, training);
  end_on_last_stage(model);
  return plan_cut(std::move(model), target, training);
}

PlannedModel plan_evaluation(const Forward& trace, const PlanTarget& target,
                             const PlannedModel& training) {
  PlannedModel model = trace_model(trace, target);
  take_metrics(model);
  cut_like(model, training);
  return plan_cut(std::move(model), target, training);
}

FlatOptions flat_options(const TrainingSpec& spec, int rank) {
  FlatOptions flat;
  flat.bucket_bytes = spec.bucket_size * size_bytes(DType::f32);
  flat.data_rank = spec.mesh.coordinate(rank, Axis::data);
  flat.data_size = spec.mesh.size(Axis::data);
  flat.update = spec.update;
  flat.compute = spec.compute;
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
