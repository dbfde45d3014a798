// Continues Graph (trireme/graph/graph.h).
// Tracing, part two: an op is applied. Shapes, strides and placements are checked here, so that a
// mistake is reported with the op, the scope and all shapes, at the line of the user's forward pass
// that made it.
#include <algorithm>

#include "trireme/graph/graph.h"

#include "runtime/core/text/exception_text.h"
#include "runtime/graph/region.h"

namespace trireme {

namespace {

/// 'mlp/linear' f32 (4, 5), ...
std::string list(const std::vector<int>& ids, const std::vector<ValueInfo>& values) {
  std::string out;
  for (const int id : ids) {
    const ValueInfo& value = values[static_cast<std::size_t>(id)];
    out += str(out.empty() ? "" : ", ", '\'', value.name, "' ", value.spec);
  }
  return out.empty() ? "none" : out;
}

std::string list(const Placements& placements) {
  std::string out;
  for (const Placement placement : placements) out += (out.empty() ? "" : ", ") + str(placement);
  return out.empty() ? "none" : out;
}

std::string in_scope(const std::string& path) {
  return path.empty() ? "in the model itself" : str("in scope '", path, '\'');
}

/// Text that is made where it is written: a trace has very many ops, and messages are rare.
template <class F>
struct MadeLate {
  F text;
  friend std::ostream& operator<<(std::ostream& out, const MadeLate& late) {
    return out << late.text();
  }
};
template <class F>
MadeLate(F) -> MadeLate<F>;

// Views are never run, so they accept strided inputs and all types on any device; other ops must
// declare that they do.
void check_inputs(const Op& op, const Specs& inputs, const Outputs& outputs, DeviceKind device) {
  if (std::all_of(outputs.begin(), outputs.end(),
                  [](const Output& o) { return o.kind() == Output::Kind::view; }))
    return;
  require(
      op.works_on(device), "the model runs on ", name(device),
      ", and this op does not say that it does (Op::works_on): give it a kernel for the GPU (an "
      "op made by pointwise() has one where nvcc compiles it), or run on a CPU");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].packed() || op.strided(static_cast<int>(i)), "input ", i,
            " is strided and this op takes packed memory: use contiguous()");
    const DType dtype = inputs[i].dtype;
    require(!is_floating(dtype) || op.works_in(dtype), "input ", i, " is ", dtype,
            ", and this op does not say that it works in ", dtype,
            " (Op::works_in): write it for both types, or compute in DType::f32");
  }
}

void check_output(const Output& output, std::size_t o, const Specs& inputs) {
  const Spec& spec = output.spec();
  if (output.kind() == Output::Kind::fresh || output.kind() == Output::Kind::side ||
      output.kind() == Output::Kind::detached) {
    require(spec.packed(), "output ", o, " is new memory and has to be packed, but is ", spec);
    return;
  }
  require(0 <= output.source() && output.source() < static_cast<int>(inputs.size()), "output ", o,
          " is a view of input ", output.source(), ", which does not exist");
  const Spec& source = inputs[static_cast<std::size_t>(output.source())];
  require(spec.dtype == source.dtype, "output ", o, " sees ", source, " as ", spec.dtype);
  require(output.first() >= 0 && output.first() + graph::span(spec) <= graph::span(source),
          "output ", o, " (", spec, " from element ", output.first(),
          ") reaches beyond its source ", source);
  graph::region_of(spec, output.first());  // throws when the view overlaps itself
  if (output.kind() == Output::Kind::identity)
    require(spec.shape == source.shape && spec.strides == source.strides, "output ", o, " (", spec,
            ") is an identity of ", source, " and has to look the same");
}

void check_outputs(const Outputs& outputs, const Specs& inputs) {
  std::size_t visible = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    check_output(outputs[o], o, inputs);
    if (outputs[o].kind() == Output::Kind::side) continue;
    require(visible == o, "side outputs have to come last");
    ++visible;
  }
  require(visible > 0 && outputs.size() <= 32, "infer declares ", visible, " visible of ",
          outputs.size(), " outputs; it takes 1 to 32");
}

}  // namespace

std::string Graph::unique_name(const std::string& op_name) {
  const std::string path = scope_path('/');
  const std::string base = path.empty() ? op_name : path + '/' + op_name;
  const int use = ++uses_of_name_[base];
  return use == 1 ? base : str(base, '#', use);
}

void Graph::add_output(Node& node, const Output& output, Placement placement) {
  const bool side = output.kind() == Output::Kind::side;
  ValueInfo info{.kind = side ? ValueInfo::Kind::side : ValueInfo::Kind::result,
                 .name = node.name,
                 .spec = output.spec(),
                 .placement = placement,
                 .node = node.id,
                 .parameter = -1,
                 .output = output.kind()};
  const std::size_t position = node.outputs.size() + node.sides.size();
  if (position > 0) info.name += str(side ? ".side" : ".", position);
  if (output.kind() == Output::Kind::view || output.kind() == Output::Kind::identity) {
    const int input = node.inputs[static_cast<std::size_t>(output.source())];
    const ValueInfo& source = values_[static_cast<std::size_t>(input)];
    info.root = source.root;
    info.first = source.first + output.first();
    if (output.kind() == Output::Kind::view) info.gradient_root = source.gradient_root;
  }
  (side ? node.sides : node.outputs).push_back(add_value(std::move(info)));
}

// A replicated parameter gets complete gradients from all its uses, or a term from all of them.
void Graph::note_gradients(const Node& node, Placement placement) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueInfo& input = values_[static_cast<std::size_t>(node.inputs[i])];
    const int id = values_[static_cast<std::size_t>(input.gradient_root)].parameter;
    if (id < 0 || !node.op->differentiable(static_cast<int>(i))) continue;
    Parameter& parameter = parameters_[static_cast<std::size_t>(id)];
    if (parameter.placement != Placement::replicated) continue;
    bool passes_on =
        false;  // a view: its users decide. An identity: its backward completes the gradient.
    bool identity = false;
    for (const int o : node.outputs) {
      const ValueInfo& output = values_[static_cast<std::size_t>(o)];
      passes_on |= output.gradient_root == input.gradient_root;
      identity |= output.output == Output::Kind::identity && output.root == input.root;
    }
    if (passes_on) continue;
    const auto gradient = identity || node.op->completes_gradient(static_cast<int>(i), placement)
                              ? Parameter::Gradient::complete
                              : Parameter::Gradient::partial;
    if (parameter.gradient == Parameter::Gradient::unused) parameter.first_use = node.name;
    require(
        parameter.gradient == Parameter::Gradient::unused || parameter.gradient == gradient,
        "parameter '", parameter.name(), "' is used on replicated values in one place and ",
        "on partial_gradient or sharded ones in another ('", parameter.first_use, "', '", node.name,
        "'): its gradient would be complete in part, partial in part; let one of the uses enter or "
        "leave the tensor axis");
    parameter.gradient = gradient;
  }
}

Graph& detail::graph_of(const Values& inputs, const Op& op) {
  for (const Value& value : inputs)
    if (value) return value.graph();
  throw Error(inputs.empty() ? str("op '", op.name(),
                                   "' was given no input: apply one without inputs by "
                                   "Graph::apply")
                             : str("op '", op.name(), "' was given an empty Value as input 0"));
}

Values Graph::apply(OpPtr op, const Values& inputs) {
  require(op != nullptr, "apply needs an op");
  const MadeLate here{[&] { return in_scope(scope_path('/')); }};
  const std::string op_name = op->name();
  require(!op_name.empty(), "an op ", here,
          " has an empty name: Op::name() appears in messages and in the keys of random numbers");
  const MadeLate where{[&] { return str("op '", op_name, "' ", here); }};
  Specs specs;
  Placements placements;
  std::vector<bool> is_parameter;
  Node node{static_cast<int>(nodes_.size()), {}, std::move(op), {}, {}, {}, block_, recompute_};
  specs.reserve(inputs.size());
  placements.reserve(inputs.size());
  node.inputs.reserve(inputs.size());
  for (const Value& value : inputs) {
    require(value, where, " was given an empty Value as input ", node.inputs.size());
    require(&value.graph() == this, where, ": input ", node.inputs.size(),
            " belongs to another graph");
    const ValueInfo& info = values_[static_cast<std::size_t>(value.id())];
    require(values_[static_cast<std::size_t>(info.root)].output != Output::Kind::detached ||
                !node.op->differentiable(static_cast<int>(node.inputs.size())),
            where, ": input ", node.inputs.size(), ", '", info.name,
            "', is detached: no gradient comes back through it, and this op would send one");
    specs.push_back(info.spec);
    placements.push_back(info.placement);
    is_parameter.push_back(values_[static_cast<std::size_t>(info.gradient_root)].parameter >= 0);
    node.inputs.push_back(value.id());
  }
  try {
    require(inputs.size() <= 32, "an op takes at most 32 inputs, not ", inputs.size());
    const Outputs outputs = node.op->infer(specs);
    check_inputs(*node.op, specs, outputs, device_.kind);
    check_outputs(outputs, specs);
    const Placement placement = node.op->placement(placements, is_parameter);
    node.name = unique_name(op_name);
    for (const Output& output : outputs) add_output(node, output, placement);
    note_gradients(node, placement);
  } catch (...) {
    throw Error(str(where, ": ", current_exception_text(), " (inputs: ", list(node.inputs, values_),
                    "; on the tensor axis: ", list(placements), ")"));
  }
  nodes_.push_back(std::move(node));
  Values out;
  for (const int id : nodes_.back().outputs) out.emplace_back(this, id);
  return out;
}

}  // namespace trireme
