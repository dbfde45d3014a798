// The stage cut: assigns blocks to stages in order, so that the slowest stage is as fast as
// possible.
#include "runtime/graph/compile/cut.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "runtime/core/at.h"

namespace trireme {

using namespace graph;

namespace {

double cost_of(const Graph& graph, const Derivative& derivative, const Node& node) {
  if (!derivative.needed[at(node.id)] || !runs_forward(graph, node)) return 0;
  return node.op->flops(specs_of(graph, node)) * passes_of(graph, derivative, node);
}

void check(const Graph& graph, int stages, const std::vector<double>& speeds) {
  require(stages >= 1, "a graph cannot be cut into ", stages, " stages");
  const auto blocks = static_cast<int>(graph.blocks().size());
  require(stages == 1 || stages <= blocks, "the graph has ", blocks, " blocks, too few for ",
          stages, " pipeline stages: use at most ", std::max(1, blocks));
  require(speeds.empty() || speeds.size() == at(stages), speeds.size(), " speeds given for ",
          stages, " stages");
  for (const double speed : speeds)
    require(speed > 0, "the speed of a stage has to be positive, not ", speed);
}

}  // namespace

// Least time of the slowest stage, then least sum of squared times.
std::vector<int> deal_blocks(const std::vector<double>& cost, const std::vector<double>& speeds) {
  const std::size_t blocks = cost.size(), stages = speeds.size();
  std::vector<int> stage_of(blocks);
  std::iota(stage_of.begin(), stage_of.end(), 0);
  if (blocks == stages) return stage_of;
  std::vector<double> sum(blocks + 1, 0);
  std::partial_sum(cost.begin(), cost.end(), sum.begin() + 1);
  const auto time = [&](std::size_t stage, std::size_t begin, std::size_t end) {
    return (sum[end] - sum[begin]) / speeds[stage];
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> begin_of;
  // best[s][b]: the first s stages have the first b blocks, at least one each.
  const auto solve = [&](auto combine, double limit) {
    std::vector<std::vector<double>> best(stages + 1, std::vector<double>(blocks + 1, infinity));
    std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(blocks + 1, 0));
    best[0][0] = 0;
    for (std::size_t s = 1; s <= stages; ++s)
      for (std::size_t b = s; b <= blocks; ++b)
        for (std::size_t a = b; a-- > s - 1;) {  // of equals the least; the time grows
          const double t = time(s - 1, a, b);
          if (t > limit || combine(0, t) > best[s][b]) break;
          const double total = combine(best[s - 1][a], t);
          if (total < infinity && total <= best[s][b]) best[s][b] = total, from[s][b] = a;
        }
    begin_of.assign(stages + 1, blocks);
    for (std::size_t s = stages; s > 0; --s) begin_of[s - 1] = from[s][begin_of[s]];
    return best[stages][blocks];
  };
  const double slowest = solve([](double a, double b) { return std::max(a, b); }, infinity);
  solve([](double a, double b) { return a + b * b; }, slowest * (1 + 1e-12));
  for (std::size_t s = 0; s < stages; ++s)
    for (std::size_t b = begin_of[s]; b < begin_of[s + 1]; ++b) stage_of[b] = static_cast<int>(s);
  return stage_of;
}

std::vector<int> block_of_nodes(const Graph& graph) {
  std::vector<int> block_of;
  int block = 0;
  for (const Node& node : graph.nodes()) {
    if (node.block >= 0) block = node.block;
    block_of.push_back(block);
  }
  return block_of;
}

StageCut cut_stages(const Graph& graph, const Values& results, int stages,
                    const std::vector<double>& speeds) {
  check(graph, stages, speeds);
  const bool loss = !results.empty() && results.front() && results.front().shape().count() == 1 &&
                    results.front().placement() == Placement::replicated &&
                    is_floating(results.front().spec().dtype);
  const Derivative derivative =
      derive(graph, results, loss ? PlanOptions::Mode::training : PlanOptions::Mode::forward_only);
  const std::vector<int> block_of = block_of_nodes(graph);
  std::vector<double> block_cost(std::max<std::size_t>(1, graph.blocks().size()), 0);
  for (const Node& node : graph.nodes())
    block_cost[at(block_of[at(node.id)])] += cost_of(graph, derivative, node);
  const std::vector<int> stage_of_block =
      stages == 1
          ? std::vector<int>(block_cost.size(), 0)
          : deal_blocks(block_cost, speeds.empty() ? std::vector<double>(at(stages), 1.0) : speeds);

  StageCut cut;
  cut.stages = stages;
  cut.cost.assign(at(stages), 0);
  cut.holders.resize(graph.parameters().size());
  for (const Node& node : graph.nodes()) {
    const int stage = stage_of_block[at(block_of[at(node.id)])];
    cut.stage_of_node.push_back(stage);
    cut.cost[at(stage)] += cost_of(graph, derivative, node);
    if (!derivative.needed[at(node.id)] || is_view(graph, node)) continue;
    for (const int input : node.inputs) {
      const int parameter = root_of(graph, input).parameter;
      if (parameter >= 0) cut.holders[at(parameter)].insert(stage);
    }
  }
  return cut;
}

namespace {

/// How far along the pipeline values and gradients go, and so what each stage has of them.
class Viewer {
 public:
  Viewer(const Graph& graph, const Values& results, const Derivative& derivative,
         const StageCut& cut)
      : graph_(graph), results_(results), derivative_(derivative), cut_(cut) {}

  std::vector<StageView> run() {
    for (int stage = 0; stage < cut_.stages; ++stage) views_.emplace_back().stage = stage;
    find_uses();
    for (const Node& node : graph_.nodes())
      if (derivative_.needed[at(node.id)]) list(node);
    for (int v = 0; v < static_cast<int>(graph_.values().size()); ++v) cross(v);
    return std::move(views_);
  }

 private:
  int stage_of(int node) const { return cut_.stage_of_node[at(node)]; }
  bool is_constant_value(const ValueInfo& value) const {
    return value.node >= 0 && is_constant(graph_.nodes()[at(value.node)]);
  }

  void read(int root, int stage) {
    last_use_[at(root)] = std::max(last_use_[at(root)], stage);
    if (is_constant_value(info(graph_, root))) readers_[at(info(graph_, root).node)].insert(stage);
  }
  void contribute(int root, int stage) {
    last_contribution_[at(root)] = std::max(last_contribution_[at(root)], stage);
  }

  void find_uses() {
    constexpr int never = -1;
    last_use_.assign(graph_.values().size(), never);
    last_contribution_.assign(graph_.values().size(), never);
    for (const Node& node : graph_.nodes()) {
      if (!derivative_.needed[at(node.id)] || is_view(graph_, node)) continue;
      for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
        const ValueInfo& value = info(graph_, node.inputs[at(i)]);
        read(value.root, stage_of(node.id));
        if (derivative_.active[at(node.id)] && hands_on(graph_, derivative_, node, i))
          contribute(value.gradient_root, stage_of(node.id));
      }
    }
    for (const Value& result : results_) {
      const ValueInfo& value = info(graph_, result.id());
      const int use = stage_of(value.node);
      for (StageView& view : views_) view.computes.push_back(static_cast<char>(use == view.stage));
      read(value.root, use);
      if (result.id() == results_.front().id())  // metrics get no gradient
        contribute(value.gradient_root, use);
    }
  }

  void list(const Node& node) {
    const int here = stage_of(node.id);
    views_[at(here)].nodes.push_back(node.id);
    if (!is_constant(node)) return;
    const auto readers = readers_.find(node.id);
    if (readers == readers_.end()) return;
    for (const int stage : readers->second)
      if (stage != here) views_[at(stage)].nodes.push_back(node.id);
  }

  /// Before and after each stage between the first one that has a root and the last that needs it.
  void cross(int v) {
    const ValueInfo& value = info(graph_, v);
    if (value.node < 0 || is_constant_value(value)) return;
    const int producer = stage_of(value.node);
    if (value.root == v)
      for (int stage = producer; stage < last_use_[at(v)]; ++stage) {
        views_[at(stage)].sent.push_back(v);
        views_[at(stage + 1)].received.push_back(v);
      }
    if (value.gradient_root == v && derivative_.exists[at(v)])
      for (int stage = producer; stage < last_contribution_[at(v)]; ++stage) {
        views_[at(stage)].gradients_received.push_back(v);
        views_[at(stage + 1)].gradients_sent.push_back(v);
      }
  }

  const Graph& graph_;
  const Values& results_;
  const Derivative& derivative_;
  const StageCut& cut_;
  std::vector<StageView> views_;
  std::vector<int> last_use_, last_contribution_;  // per storage root, per gradient root
  std::map<int, std::set<int>> readers_;           // per node that is constant: stages
};

}  // namespace

std::vector<StageView> graph::view_stages(const Graph& graph, const Values& results,
                                          const Derivative& derivative, const StageCut& cut) {
  return Viewer(graph, results, derivative, cut).run();
}

PlanBasis::PlanBasis(const Graph& graph, const Values& results, const StageCut& cut,
                     PlanOptions::Mode mode) {
  require(cut.stage_of_node.size() == graph.nodes().size(),
          "the stage cut belongs to another graph, or nodes were added after it was made");
  const auto state = std::make_shared<State>();
  state->derivative = derive(graph, results, mode);
  state->views = view_stages(graph, results, state->derivative, cut);
  state_ = state;
}

}  // namespace trireme

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
    return parameter >= 0 && graph.parameters()[at(parameter)].frozen();
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
    d.wanted[at(parameter.value)] = static_cast<char>(!parameter.frozen());
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
