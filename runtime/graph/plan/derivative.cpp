#include "runtime/graph/plan/derivative.h"

#include <algorithm>

#include "runtime/core/at.h"

namespace trireme::graph {

namespace {

bool any_output(const Graph& graph, const Node& node, Output::Kind a, Output::Kind b) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](int id) {
    return info(graph, id).output == a || info(graph, id).output == b;
  });
}

void check_results(const Graph& graph, const Values& results, PlanOptions::Mode mode) {
  require(!results.empty(), "a plan needs at least one result");
  for (const Value& result : results) {
    require(result && &result.graph() == &graph, "a result belongs to another graph");
    const ValueInfo& value = info(graph, result.id());
    require(root_of(graph, result.id()).node >= 0, "result '", value.name,
            "' is not computed by any op");
    require(value.placement != Placement::partial, "result '", value.name,
            "' is partial, one term of a sum over the tensor axis: it has to leave it first");
    if (mode == PlanOptions::Mode::forward_only || result.id() != results.front().id()) continue;
    require(value.spec.shape.dims() == 0 &&
                (value.spec.dtype == DType::f32 || value.spec.dtype == DType::f64),
            "the loss has to be one f64 or f32 number without dims, whatever the size of a "
            "micro-batch, but '",
            value.name, "' is ", value.spec, ": sum it, for example by sum() or pointwise_sum()");
    require(value.placement == Placement::replicated, "the loss '", value.name, "' is ",
            value.placement, " on the tensor axis: it has to leave it first");
  }
}

}  // namespace

bool runs_forward(const Graph& graph, const Node& node) {
  return !node.sides.empty() ||
         any_output(graph, node, Output::Kind::fresh, Output::Kind::detached);
}

bool runs_backward(const Graph& graph, const Node& node) {
  return any_output(graph, node, Output::Kind::fresh, Output::Kind::identity);
}

Specs specs_of(const Graph& graph, const Node& node) {
  Specs specs;
  specs.reserve(node.inputs.size());
  for (const int input : node.inputs) specs.push_back(info(graph, input).spec);
  return specs;
}

bool hands_on(const Graph& graph, const Derivative& derivative, const Node& node, int i) {
  const int value = node.inputs[at(i)];
  return node.op->differentiable(i) && derivative.wanted[at(value)] != 0 &&
         is_floating(info(graph, value).spec.dtype);
}

// Forward, and the gradients of what it works on and of its weights.
int passes_of(const Graph& graph, const Derivative& derivative, const Node& node) {
  if (!derivative.active[at(node.id)]) return 1;
  const bool frozen = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
    const int parameter = root_of(graph, input).parameter;
    return parameter >= 0 && graph.parameters()[at(parameter)].frozen;
  });
  return frozen ? 2 : 3;
}

Derivative derive(const Graph& graph, const Values& results, PlanOptions::Mode mode) {
  check_results(graph, results, mode);
  const auto& values = graph.values();
  const auto& nodes = graph.nodes();
  Derivative d{std::vector<char>(nodes.size()), std::vector<char>(values.size()),
               std::vector<char>(values.size()), std::vector<char>(nodes.size())};
  for (const Value& result : results) d.needed[at(info(graph, result.id()).node)] = 1;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (d.needed[at(node->id)])
      for (const int input : node->inputs)
        if (values[at(input)].node >= 0) d.needed[at(values[at(input)].node)] = 1;
  if (mode == PlanOptions::Mode::forward_only) return d;

  for (const Parameter& parameter : graph.parameters())
    d.wanted[at(parameter.value)] = static_cast<char>(!parameter.frozen);
  for (const Node& node : nodes) {
    bool flows = false;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i)
      flows |= hands_on(graph, d, node, i);
    for (const int o : node.outputs)
      d.wanted[at(o)] = static_cast<char>(flows && is_floating(values[at(o)].spec.dtype) &&
                                          values[at(o)].output != Output::Kind::detached);
  }
  d.exists[at(info(graph, results.front().id()).gradient_root)] = 1;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!d.needed[at(node->id)] || !runs_backward(graph, *node)) continue;
    bool arrives = false;
    for (const int o : node->outputs)
      arrives |= values[at(o)].gradient_root == o && d.exists[at(o)] != 0;
    if (!arrives) continue;
    for (int i = 0; i < static_cast<int>(node->inputs.size()); ++i) {
      if (!hands_on(graph, d, *node, i)) continue;
      d.exists[at(values[at(node->inputs[at(i)])].gradient_root)] = 1;
      d.active[at(node->id)] = 1;
    }
  }
  return d;
}

}  // namespace trireme::graph
