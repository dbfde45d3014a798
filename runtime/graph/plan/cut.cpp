// The stage cut: assigns blocks to stages in order, so that the slowest stage is as fast as
// possible.
#include "runtime/graph/plan/cut.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/core/at.h"

namespace trireme {

using namespace graph;

namespace {

double cost_of(const Graph& graph, const Derivative& derivative, const Node& node) {
  if (!derivative.needed[at(node.id)] || !runs_forward(graph, node)) return 0;
  Specs specs;
  for (const int input : node.inputs) specs.push_back(info(graph, input).spec);
  return node.op->flops(specs) * passes_of(graph, derivative, node);
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
  std::vector<int> stage_of(blocks);
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

StageView graph::view_stage(const Graph& graph, const Values& results, const Derivative& derivative,
                            const StageCut& cut, int stage) {
  StageView view;
  view.stage = stage;
  const auto& values = graph.values();
  constexpr int never = -1;
  std::vector<int> last_use(values.size(), never);           // per storage root
  std::vector<int> last_contribution(values.size(), never);  // per gradient root
  std::vector<char> read_here(values.size(), 0);
  for (const Node& node : graph.nodes()) {
    if (!derivative.needed[at(node.id)] || is_view(graph, node)) continue;
    const int use = cut.stage_of_node[at(node.id)];
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      const ValueInfo& value = values[at(node.inputs[at(i)])];
      last_use[at(value.root)] = std::max(last_use[at(value.root)], use);
      if (use == stage) read_here[at(value.root)] = 1;
      if (derivative.active[at(node.id)] && hands_on(graph, derivative, node, i))
        last_contribution[at(value.gradient_root)] =
            std::max(last_contribution[at(value.gradient_root)], use);
    }
  }
  for (const Value& result : results) {
    const ValueInfo& value = values[at(result.id())];
    const int use = cut.stage_of_node[at(value.node)];
    view.computes.push_back(static_cast<char>(use == stage));
    last_use[at(value.root)] = std::max(last_use[at(value.root)], use);
    if (use == stage) read_here[at(value.root)] = 1;
    if (result.id() == results.front().id())  // metrics get no gradient
      last_contribution[at(value.gradient_root)] =
          std::max(last_contribution[at(value.gradient_root)], use);
  }
  for (const Node& node : graph.nodes()) {
    const bool here = cut.stage_of_node[at(node.id)] == stage;
    const bool copied =
        is_constant(node) && std::any_of(node.outputs.begin(), node.outputs.end(),
                                         [&](int o) { return read_here[at(o)] != 0; });
    if (derivative.needed[at(node.id)] && (here || copied)) view.nodes.push_back(node.id);
  }
  const auto add = [stage](int root, int producer, int last, std::vector<int>& before,
                           std::vector<int>& after) {
    if (producer < stage && last >= stage) before.push_back(root);
    if (producer <= stage && last > stage) after.push_back(root);
  };
  for (int v = 0; v < static_cast<int>(values.size()); ++v) {
    const ValueInfo& value = values[at(v)];
    if (value.node < 0 || is_constant(graph.nodes()[at(value.node)])) continue;
    const int producer = cut.stage_of_node[at(value.node)];
    if (value.root == v) add(v, producer, last_use[at(v)], view.received, view.sent);
    if (value.gradient_root == v && derivative.exists[at(v)])
      add(v, producer, last_contribution[at(v)], view.gradients_sent, view.gradients_received);
  }
  return view;
}

}  // namespace trireme
