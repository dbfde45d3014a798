// The stage cut: assigns blocks to stages in order, so that the slowest stage is as fast as
// possible.
#include "runtime/graph/plan/cut.h"

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
