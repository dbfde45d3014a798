#include "runtime/train/trainer_agreement.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "runtime/rank_plan/reduction_order.h"

namespace trireme::train {
namespace {

std::string ids(const std::vector<int>& all) {
  std::string text;
  for (const int id : all) text += str(text.empty() ? "" : " ", id);
  return text;
}

/// "f32 (32, 64) replicated"
std::string form(const Graph& graph, int value) {
  const ValueInfo& info = graph.values()[static_cast<std::size_t>(value)];
  if (info.placement == Placement::sharded && graph.tensor_size() > 1)
    return str(info.spec.dtype, " of ", info.spec.shape.dims(), " dims, sharded");
  return str(info.spec, " ", info.placement);
}

std::string forms(const Graph& graph, const std::vector<int>& values) {
  std::string text;
  for (const int value : values) text += (text.empty() ? "" : " and ") + form(graph, value);
  return text;
}

std::string describe(const ParameterPart& part, const Parameter& parameter) {
  static constexpr const char* kinds[] = {"zeros", "ones", "normal", "uniform"};
  std::string text = str(part.global);
  if (part.shard.dim >= 0)
    text += str(", sharded along dim ", part.shard.dim, part.shard.padded ? ", padded" : "");
  text += str(", ", kinds[static_cast<std::size_t>(part.init.kind)]);
  if (part.init.scale != 0) text += fmt::format(" {}", part.init.scale);
  return text + (parameter.decays() ? "" : ", no weight decay");
}

std::string describe(const Graph& graph, const Node& node, int stage) {
  std::string text = fmt::format("{} ({}) of values {}, makes {}", node.name, node.op->name(),
                                 ids(node.inputs), forms(graph, node.outputs));
  if (!node.sides.empty()) text += ", besides " + forms(graph, node.sides);
  text += fmt::format(", block {}, stage {}", node.block, stage);
  if (node.recompute >= 0) text += fmt::format(", recomputed in scope {}", node.recompute);
  return text;
}

/// The work of one stage: a few works a fact.
void add_order(const WorkOrder& order, int chunks, const std::string& title,
               std::vector<RankFact>& facts) {
  constexpr std::size_t works = 8;
  for (std::size_t i = 0; i < order.size(); i += works) {
    std::string text;
    for (std::size_t k = i; k < std::min(i + works, order.size()); ++k)
      text += str(text.empty() ? "" : " ", describe(order[k], chunks));
    facts.push_back({str(title, " from work ", i), text});
  }
}

/// A schedule of the program's own, which could differ between ranks: of all pipelines.
void add_schedule(const TrainingSpec& spec, std::vector<RankFact>& facts) {
  if (!spec.own_schedule) return;
  const std::vector<PipelineShape> shapes = pipeline_shapes(spec);
  for (const PipelineShape& shape : shapes)
    for (int stage = 0; stage < shape.stages; ++stage)
      add_order(spec.own_schedule(shape, stage), shape.chunks,
                str("schedule: stage ", stage,
                    shapes.size() == 1 ? "" : str(" with ", shape.micro_batches, " micro-batches")),
                facts);
}

}  // namespace

std::vector<RankFact> facts_of(const std::string& title, const PlannedModel& model) {
  const Graph& graph = *model.graph;
  std::vector<RankFact> facts;
  const auto add = [&](const std::string& name, const auto& value) {
    facts.push_back({title + ": " + name, str(value)});
  };
  // Counts come first: the first difference should be the most informative one.
  add("number of blocks", graph.blocks().size());
  add("number of inputs", graph.inputs().size());
  add("number of parameters", graph.parameters().size());
  for (const int input : graph.inputs())
    add("input " + graph.values()[static_cast<std::size_t>(input)].name, form(graph, input));
  for (const Parameter& parameter : graph.parameters())
    for (const ParameterPart& part : parameter.parts)
      add("parameter " + part.name, describe(part, parameter));
  for (const std::string& block : graph.blocks()) add("block", block);
  add("number of ops", graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    add(str("op ", i), describe(graph, graph.nodes()[i], model.cut.stage_of_node[i]));
  for (const Value& result : model.results) add("result", str("value ", result.id()));
  for (const std::string& metric : model.metrics) add("metric", metric);
  return facts;
}

void agree_on_model(const Host& host, const PlannedTraining& plan, const KeyValues& identity) {
  std::vector<RankFact> all;
  for (const auto& [name, value] : identity) all.push_back({"model: " + name, value});
  const auto add = [&](const std::string& title, const PlannedPass& pass) {
    for (RankFact& fact : facts_of(title, pass.model())) all.push_back(std::move(fact));
  };
  add("model", plan.train);
  add("model of evaluation", plan.evaluate);
  if (plan.generate) add("model of generation", *plan.generate);
  if (plan.outputs) add("model of outputs", plan.outputs->pass);
  add_schedule(plan.spec, all);
  require_same(host, all, 1);
}

void agree_on_data(const Host& host, const DataSource* source, const std::string& use) {
  require_same(host, {{use, source == nullptr ? "none" : "a source"}}, 1);
  if (source == nullptr) return;
  std::vector<RankFact> facts;
  for (const auto& [name, value] : source->identity())
    facts.push_back({use + ": " + name, value, source->file_of(name)});
  constexpr std::size_t most = 4;
  require_same(host, facts, most);
}

void agree_on_count(const Host& host, Index count, const char* what) {
  Index most[2] = {count, -count};  // the negative of the least
  host.all_reduce({most, 2, DType::i64}, Reduction::max);
  if (most[0] == -most[1]) return;
  require_same(host, {{what, str(count)}}, 1);
}

}  // namespace trireme::train
