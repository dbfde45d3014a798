#include "runtime/graph/compile/alike.h"

#include <algorithm>
#include <map>
#include <typeindex>

#include "runtime/core/at.h"
#include "runtime/graph/compile/cut.h"

namespace trireme {

using namespace graph;

namespace {

bool equal(const Spec& a, const Spec& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

bool equal(const WorkParts& a, const WorkParts& b) {
  return a.products == b.products && a.attention == b.attention && a.collectives == b.collectives;
}

/// Compares a block with the next one. In blocks that are traced alike, ids differ by a constant,
/// but for what both take from before them.
class Comparison {
 public:
  Comparison(const Graph& graph, const Derivative& derivative)
      : graph_(graph), derivative_(derivative) {}

  bool alike(const std::vector<int>& a, const std::vector<int>& b) {
    if (a.size() != b.size() || a.empty()) return false;
    const Node &first = node(a.front()), &second = node(b.front());
    if (first.outputs.empty() || second.outputs.empty()) return false;
    value_shift_ = second.outputs.front() - first.outputs.front();
    scope_shift_ = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!alike(node(a[i]), node(b[i]))) return false;
    return true;
  }

 private:
  const Node& node(int id) const { return graph_.nodes()[at(id)]; }

  bool alike(const Node& a, const Node& b) {
    if (a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size() ||
        a.sides.size() != b.sides.size() || !alike_scopes(a.recompute, b.recompute) ||
        derivative_.needed[at(a.id)] != derivative_.needed[at(b.id)] ||
        derivative_.active[at(a.id)] != derivative_.active[at(b.id)])
      return false;
    for (std::size_t i = 0; i < a.inputs.size(); ++i)
      if (!alike_values(a.inputs[i], b.inputs[i], true)) return false;
    for (std::size_t i = 0; i < a.outputs.size(); ++i)
      if (!alike_values(a.outputs[i], b.outputs[i], false)) return false;
    for (std::size_t i = 0; i < a.sides.size(); ++i)
      if (!alike_values(a.sides[i], b.sides[i], false)) return false;
    return alike_ops(a, b);
  }

  /// A scope that both are in would begin in one of them only.
  bool alike_scopes(int a, int b) {
    if (a < 0 || b < 0) return a == b;
    if (scope_shift_ == 0) scope_shift_ = b - a;
    const int parent_a = graph_.recompute_parents()[at(a)],
              parent_b = graph_.recompute_parents()[at(b)];
    if (b == a || b - a != scope_shift_ || (parent_a < 0) != (parent_b < 0)) return false;
    return parent_a < 0 || parent_b - parent_a == scope_shift_;
  }

  /// `shared`: may be one value. Two inputs of the model are not alike: what feeds them differs.
  bool alike_values(int a, int b, bool shared) const {
    if (shared && a == b) return true;
    if (b - a != value_shift_ || info(graph_, a).kind == ValueInfo::Kind::input) return false;
    const ValueInfo &x = info(graph_, a), &y = info(graph_, b);
    return x.kind == y.kind && x.output == y.output && x.placement == y.placement &&
           x.first == y.first && equal(x.spec, y.spec) && alike_ids(x.root, y.root) &&
           alike_ids(x.gradient_root, y.gradient_root) &&
           derivative_.wanted[at(a)] == derivative_.wanted[at(b)] &&
           derivative_.exists[at(a)] == derivative_.exists[at(b)] &&
           alike_parameters(x.parameter, y.parameter);
  }

  bool alike_ids(int a, int b) const { return a == b || b - a == value_shift_; }

  bool alike_parameters(int a, int b) const {
    if (a < 0 || b < 0) return a == b;
    const Parameter &x = graph_.parameters()[at(a)], &y = graph_.parameters()[at(b)];
    return x.decays() == y.decays() && x.frozen() == y.frozen() && x.gradient == y.gradient &&
           x.placement == y.placement && equal(x.spec, y.spec);
  }

  bool alike_ops(const Node& a, const Node& b) const {
    const Op &x = *a.op, &y = *b.op;
    if (std::type_index(typeid(x)) != std::type_index(typeid(y)) || x.name() != y.name())
      return false;
    const Specs specs = specs_of(graph_, a);
    return x.flops(specs) == y.flops(specs) && x.bytes(specs) == y.bytes(specs) &&
           x.forward_workspace_bytes(specs) == y.forward_workspace_bytes(specs) &&
           x.backward_workspace_bytes(specs) == y.backward_workspace_bytes(specs) &&
           x.forward_in_backward() == y.forward_in_backward() &&
           equal(x.parts(specs), y.parts(specs));
  }

  const Graph& graph_;
  const Derivative& derivative_;
  int value_shift_ = 0, scope_shift_ = 0;
};

/// All that a stage's plan follows from, but for names and ids.
class Signature {
 public:
  Signature(const Graph& graph, const StageCut& cut, const std::vector<int>& kinds)
      : graph_(graph), kinds_(kinds), blocks_(at(cut.stages)), tied_(at(cut.stages)) {
    const std::vector<int> block_of = block_of_nodes(graph);
    for (std::size_t node = 0; node < block_of.size(); ++node) {
      Blocks& blocks = blocks_[at(cut.stage_of_node[node])];
      if (blocks.last < 0) blocks.first = block_of[node];
      blocks.last = block_of[node];
    }
    for (const std::set<int>& holders : cut.holders)
      if (holders.size() > 1)
        for (const int stage : holders) tied_[at(stage)] = true;
  }

  std::vector<Index> of(const StageView& view) const {
    // A tied parameter is also what other stages make it: like no other.
    std::vector<Index> all = {tied_[at(view.stage)] ? view.stage : -1};
    all.push_back(static_cast<Index>(view.nodes.size()));
    const Blocks& blocks = blocks_[at(view.stage)];
    // Neighbours say what is read of this stage, and where its values come from.
    for (int block = blocks.first - 1; block <= blocks.last + 1; ++block)
      all.push_back(block < 0 || block >= static_cast<int>(kinds_.size()) ? -1 : kinds_[at(block)]);
    for (const auto* crossing :
         {&view.received, &view.sent, &view.gradients_received, &view.gradients_sent}) {
      all.push_back(static_cast<Index>(crossing->size()));
      for (const int value : *crossing) {
        all.push_back(info(graph_, value).spec.bytes());
        all.push_back(static_cast<Index>(info(graph_, value).spec.dtype));
      }
    }
    for (const char computes : view.computes) all.push_back(computes);
    return all;
  }

 private:
  struct Blocks {
    int first = 0, last = -1;
  };
  const Graph& graph_;
  const std::vector<int>& kinds_;
  std::vector<Blocks> blocks_;
  std::vector<bool> tied_;
};

}  // namespace

std::vector<int> block_kinds(const Graph& graph, const Values& results, PlanOptions::Mode mode) {
  const Derivative derivative = derive(graph, results, mode);
  std::vector<std::vector<int>> nodes(std::max<std::size_t>(1, graph.blocks().size()));
  const std::vector<int> block_of = block_of_nodes(graph);
  for (std::size_t node = 0; node < block_of.size(); ++node)
    nodes[at(block_of[node])].push_back(static_cast<int>(node));
  Comparison comparison(graph, derivative);
  std::vector<int> kinds(nodes.size(), 0);
  for (std::size_t block = 1; block < nodes.size(); ++block)
    kinds[block] = comparison.alike(nodes[block - 1], nodes[block]) ? kinds[block - 1]
                                                                    : static_cast<int>(block);
  return kinds;
}

std::vector<int> stage_kinds(const Graph& graph, const StageCut& cut, const PlanBasis& basis,
                             const std::vector<int>& blocks) {
  const Signature signature(graph, cut, blocks);
  std::map<std::vector<Index>, int> known;
  std::vector<int> kinds;
  for (const StageView& view : basis.state().views)
    kinds.push_back(known.try_emplace(signature.of(view), view.stage).first->second);
  return kinds;
}

// Stages that are alike have nodes of the same kinds in the same order.
Plan plan_like(const Plan& plan, int stage, const Graph& graph, const PlanBasis& basis) {
  const std::vector<int>& theirs = basis.state().views[at(plan.stage())].nodes;
  const std::vector<int>& own = basis.state().views[at(stage)].nodes;
  std::map<int, int> own_of;  // parameters, by theirs
  for (std::size_t n = 0; n < theirs.size(); ++n) {
    const Node &a = graph.nodes()[at(theirs[n])], &b = graph.nodes()[at(own.at(n))];
    for (std::size_t i = 0; i < a.inputs.size(); ++i) {
      const int parameter = root_of(graph, a.inputs[i]).parameter;
      if (parameter >= 0) own_of[parameter] = root_of(graph, b.inputs.at(i)).parameter;
    }
  }
  std::vector<int> parameters;
  parameters.reserve(plan.parameters().size());
  for (const int parameter : plan.parameters()) parameters.push_back(own_of.at(parameter));
  return {plan, stage, std::move(parameters)};
}

}  // namespace trireme
