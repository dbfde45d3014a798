// What a stage has to do with, once the graph is cut.
#pragma once

#include <vector>

#include "runtime/graph/plan/derivative.h"
#include "runtime/graph/plan/plan.h"

namespace trireme::graph {

/// Roots cross cuts, views never: values by storage root, gradients by gradient root (rule 3).
/// Inputs, parameters and constants do not cross. What passes through a stage is both received and
/// sent by it. Ids ascend.
struct StageView {
  int stage = 0;
  std::vector<int> nodes;  // needed nodes that run here
  std::vector<int> received, sent;
  std::vector<int> gradients_received, gradients_sent;
  std::vector<char> computes;  // per result
};
/// Of all stages, in order.
std::vector<StageView> view_stages(const Graph& graph, const Values& results,
                                   const Derivative& derivative, const StageCut& cut);

}  // namespace trireme::graph

namespace trireme {

struct PlanBasis::State {
  graph::Derivative derivative;
  std::vector<graph::StageView> views;
};

}  // namespace trireme
