#include "runtime/layouts/unequal/model_cut.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "trireme/models/transformer.h"

#include "runtime/core/at.h"
#include "runtime/graph/compile/plan.h"

namespace trireme::layouts {

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
