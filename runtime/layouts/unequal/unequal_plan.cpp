#include "runtime/layouts/unequal/unequal_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/models/transformer.h"

#include "runtime/core/at.h"
#include "runtime/graph/compile/plan.h"

namespace trireme::layouts {

const char* name(Family family) {
  switch (family) {
    case Family::replicas:
      return "replicas";
    case Family::pipeline:
      return "pipeline";
    case Family::mixed:
      return "mixed";
  }
  return "";
}

unsigned UnequalPlan::groups() const {
  unsigned used = 0;
  for (const PipelineKind& kind : kinds)
    for (const int type : kind.types) used |= 1U << static_cast<unsigned>(type);
  return used;
}

int UnequalPlan::gpus(int group) const {
  int sum = 0;
  for (const PipelineKind& kind : kinds)
    sum += kind.count * static_cast<int>(std::count(kind.types.begin(), kind.types.end(), group));
  return sum * layout.tensor;
}

int UnequalPlan::first_of(std::size_t kind) const {
  int before = 0;
  for (std::size_t k = 0; k < kind; ++k) before += kinds[k].count;
  return before;
}

DataShares UnequalPlan::shares() const {
  DataShares all;
  for (const PipelineKind& kind : kinds)
    for (int i = 0; i < kind.count; ++i)
      all.push_back(kind.share.each + (i < kind.share.more ? 1 : 0));
  const Index factor = std::accumulate(all.begin(), all.end(), Index{0},
                                       [](Index a, Index b) { return std::gcd(a, b); });
  for (Index& each : all) each /= std::max<Index>(1, factor);
  const bool equal = std::all_of(all.begin(), all.end(), [](Index each) { return each == 1; });
  return equal ? DataShares{} : all;
}

std::string why_not_launched(const UnequalPlan& plan) {
  const PipelineKind& first = plan.kinds.front();
  for (const PipelineKind& kind : plan.kinds) {
    if (kind.stages() != first.stages())
      return fmt::format("pipelines have {} and {} stages, and a mesh has one number of stages",
                         first.stages(), kind.stages());
    if (kind.blocks != first.blocks)
      return fmt::format(
          "pipelines are cut differently ({} and {} blocks), and --stage-speeds cuts all alike",
          fmt::join(first.blocks, "+"), fmt::join(kind.blocks, "+"));
  }
  return "";
}

ModelCut::ModelCut(const TrainingTask& task, const DeviceTraits& device)
    : graph_(0, 1, task.options().compute()) {
  graph_.plan_for(device);
  loss_ = build_transformer_loss(graph_, task.model(), 1);
  block_of_ = block_of_nodes(graph_);
  cost_ = cut_stages(graph_, {loss_}, static_cast<int>(graph_.blocks().size())).cost;
}

std::vector<int> ModelCut::blocks(int stages, const std::vector<double>& speeds) const {
  const StageCut cut = cut_stages(graph_, {loss_}, stages, speeds);
  std::vector<std::set<int>> found(at(stages));
  for (std::size_t node = 0; node < block_of_.size(); ++node)
    found[at(cut.stage_of_node[node])].insert(block_of_[node]);
  std::vector<int> counts;
  for (const std::set<int>& each : found) counts.push_back(static_cast<int>(each.size()));
  return counts;
}

const std::vector<int>& ModelCut::equal(int stages) {
  const auto [known, is_new] = equal_.try_emplace(stages);
  if (is_new) known->second = blocks(stages, {});
  return known->second;
}

std::vector<double> ModelCut::speeds_for(const std::vector<int>& wanted) {
  const auto stages = static_cast<int>(wanted.size());
  if (equal(stages) == wanted) return {};
  std::vector<double> costs;
  auto begin = cost_.begin();
  for (const int count : wanted) {
    costs.push_back(std::accumulate(begin, begin + count, 0.0));
    begin += count;
  }
  const double least = *std::min_element(costs.begin(), costs.end());
  for (const double digits : {1e2, 1e4, 1e6}) {
    std::vector<double> speeds;
    for (const double cost : costs) speeds.push_back(std::round(digits * cost / least) / digits);
    if (blocks(stages, speeds) == wanted) return speeds;
  }
  return costs;
}

}  // namespace trireme::layouts
