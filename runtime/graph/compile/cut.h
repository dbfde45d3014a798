// What a stage has to do with, once the graph is cut.
#pragma once

#include <vector>

#include "trireme/graph/graph.h"

#include "runtime/graph/compile/plan.h"

namespace trireme::graph {

/// Derivative: which nodes a result depends on, and where gradients flow. Derived from the whole
/// graph, so that all stages agree on it.
struct Derivative {
  std::vector<char> needed;  // per node: a result depends on it
  std::vector<char> wanted;  // per value: the gradient of a trained parameter flows through it
  std::vector<char> exists;  // per value that is a gradient root: some gradient arrives
  std::vector<char> active;  // per node: it hands gradients on
};
Derivative derive(const Graph& graph, const Values& results, PlanOptions::Mode mode);

/// Whether the op runs in forward. It does not if all of its outputs are views or identities.
bool runs_forward(const Graph& graph, const Node& node);
/// Whether backward passes on gradients of new roots. It does not if all outputs are views.
bool runs_backward(const Graph& graph, const Node& node);
/// Never runs: its outputs are other names for memory, in forward and in backward.
inline bool is_view(const Graph& graph, const Node& node) {
  return !runs_forward(graph, node) && !runs_backward(graph, node);
}
/// Has no inputs (a table of rotations): each stage that reads it makes its own.
inline bool is_constant(const Node& node) { return node.inputs.empty(); }

/// FLOPs of forward and backward, as multiples of those of forward.
int passes_of(const Graph& graph, const Derivative& derivative, const Node& node);

inline const ValueInfo& info(const Graph& graph, int value) {
  return graph.values()[static_cast<std::size_t>(value)];
}
inline const ValueInfo& root_of(const Graph& graph, int value) {
  return info(graph, info(graph, value).root);
}
/// Returns the specs of the inputs of `node`.
Specs specs_of(const Graph& graph, const Node& node);
/// Whether the gradient of `node`'s input i flows to a parameter.
bool hands_on(const Graph& graph, const Derivative& derivative, const Node& node, int i);

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
/// Returns the views of all stages, in order.
std::vector<StageView> view_stages(const Graph& graph, const Values& results,
                                   const Derivative& derivative, const StageCut& cut);

}  // namespace trireme::graph

namespace trireme {

struct PlanBasis::State {
  graph::Derivative derivative;
  std::vector<graph::StageView> views;
};

}  // namespace trireme
