#include "runtime/plan/planned_inputs.h"

#include <set>

#include "runtime/core/at.h"
#include "runtime/core/round_up.h"

namespace trireme {
namespace {

constexpr Index input_alignment = 64;

const ValueInfo& input_info(const Graph& graph, std::size_t position) {
  return graph.values()[static_cast<std::size_t>(graph.inputs()[position])];
}

/// The input of the source's graph that is called as this one and looks alike.
std::size_t row_of_input(const std::vector<PlannedInputs::Row>& rows, const Graph& source,
                         const ValueInfo& input) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name != input.name) continue;
    const Spec& known = input_info(source, i).spec;
    require(known.shape == input.spec.shape && known.dtype == input.spec.dtype, "input '",
            input.name, "' of Model::result is ", input.spec, ", and in Model::loss ", known,
            ": declare it alike in both");
    return i;
  }
  throw Error(str("input '", input.name,
                  "' of Model::result is no input of Model::loss, whose inputs are what a "
                  "DataSource fills"));
}

}  // namespace

Shape without_first(const Shape& shape) {
  Shape rest;
  for (int d = 1; d < shape.dims(); ++d) rest.push_back(shape[d]);
  return rest;
}

Index PlannedInputs::Input::bytes() const { return round_up(batch.bytes(), input_alignment); }

PlannedInputs::PlannedInputs(const PlannedModel& model, const PlanTarget& target,
                             const Graph& source)
    : micro_batch_size(target.spec.micro_batch_size),
      micro_batches(target.pipeline().micro_batches),
      first_row(target.spec.micro_batches(target.coordinate(Axis::data)).first * micro_batch_size) {
  for (std::size_t i = 0; i < source.inputs().size(); ++i) {
    const ValueInfo& info = input_info(source, i);
    rows.push_back(
        {info.name, Tensor(nullptr, without_first(info.spec.shape),
                           info.spec.dtype == DType::bf16 ? DType::f32 : info.spec.dtype)});
  }
  std::set<int> used;
  for (const Plan& plan : model.chunks) used.insert(plan.inputs().begin(), plan.inputs().end());
  for (std::size_t i = 0; i < model.graph->inputs().size(); ++i) {
    const ValueInfo& info = input_info(*model.graph, i);
    inputs.push_back({&source == model.graph.get() ? i : row_of_input(rows, source, info),
                      used.count(static_cast<int>(i)) > 0,
                      Tensor(nullptr, info.spec.shape, info.spec.dtype)});
  }
}

Index PlannedInputs::bytes() const {
  Index sum = 0;
  for (const Input& input : inputs)
    if (input.used) sum += input.bytes() * micro_batches;
  return sum;
}

void check_inputs(const Graph& graph, Index micro_batch_size) {
  std::vector<bool> used(graph.values().size());
  for (const Node& node : graph.nodes())
    for (const int input : node.inputs) used[at(input)] = true;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueInfo& input = input_info(graph, i);
    require(input.spec.shape.dims() >= 1 && input.spec.shape[0] == micro_batch_size, "input '",
            input.name, "' has shape ", input.spec.shape,
            ", but its dim 0 is the sample and has to be TrainingSpec::micro_batch_size ",
            micro_batch_size);
  }
  for (const int input : graph.inputs())
    require(used[at(input)], "input '", graph.values()[at(input)].name,
            "' is used by no op: use it, or leave it out");
}

}  // namespace trireme
