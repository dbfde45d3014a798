#include "runtime/plan/planned_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/core/show_bytes.h"
#include "runtime/graph/plan/cut.h"

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

/// `model` is traced.
PlannedModel plan_traced(PlannedModel model, const PlanTarget& target,
                         const PlannedModel& training) {
  require(model.graph->blocks() == training.graph->blocks(), "a forward-only model has ",
          model.graph->blocks().size(), " blocks where training has ",
          training.graph->blocks().size());
  std::vector<int> stage_of_block(std::max<std::size_t>(1, training.graph->blocks().size()), 0);
  const std::vector<int> trained = graph::block_of_nodes(*training.graph);
  for (std::size_t i = 0; i < trained.size(); ++i)
    stage_of_block[static_cast<std::size_t>(trained[i])] = training.cut.stage_of_node[i];
  model.cut.stages = training.cut.stages;
  model.cut.holders = training.cut.holders;
  for (const int block : graph::block_of_nodes(*model.graph))
    model.cut.stage_of_node.push_back(stage_of_block[static_cast<std::size_t>(block)]);
  plan_chunks(model, target, {.mode = PlanOptions::Mode::forward_only});
  check_parameters(model, training, target.spec.mesh.size(Axis::pipeline));
  return model;
}

}  // namespace

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
  return plan_traced(trace_model(trace, target), target, training);
}

PlannedModel plan_evaluation(const Forward& trace, const PlanTarget& target,
                             const PlannedModel& training) {
  PlannedModel model = trace_model(trace, target);
  take_metrics(model);
  return plan_traced(std::move(model), target, training);
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
