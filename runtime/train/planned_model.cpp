#include "runtime/train/planned_model.h"

#include <algorithm>

#include <fmt/format.h>

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

PlannedModel plan_model(const std::function<Value(Graph&)>& trace, const MeshShape& mesh, int rank,
                        int chunks, PlanOptions::Mode mode) {
  PlannedModel model;
  model.graph =
      std::make_unique<Graph>(mesh.coordinate(rank, Axis::tensor), mesh.size(Axis::tensor));
  model.results = {trace(*model.graph)};
  const int stages = mesh.size(Axis::pipeline);
  model.cut = cut_stages(*model.graph, model.results, stages * chunks);
  PlanOptions options;
  options.mode = mode;
  for (int chunk = 0; chunk < chunks; ++chunk)
    model.chunks.emplace_back(*model.graph, model.results, model.cut,
                              chunk * stages + mesh.coordinate(rank, Axis::pipeline), options);
  return model;
}

std::string show_bytes(Index bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

std::string largest_tensors(const std::vector<const Plan*>& plans, const Graph& graph, int count) {
  std::vector<std::pair<Index, std::string>> all;
  for (const Plan* plan : plans) {
    for (const Instance& instance : plan->instances())
      all.emplace_back(instance.bytes, instance.name);
    for (const int id : plan->parameters()) {
      const Parameter& parameter = graph.parameters()[static_cast<std::size_t>(id)];
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
