// Tracing: scopes, inputs and parameters, then ops.
#include "trireme/graph/graph.h"

#include <algorithm>

#include "runtime/core/round_up.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/graph/region.h"

namespace trireme {

const Spec& Value::spec() const {
  require(graph_ != nullptr, "an empty Value has no spec");
  return graph_->values()[static_cast<std::size_t>(id_)].spec;
}

Placement Value::placement() const {
  require(graph_ != nullptr, "an empty Value has no placement");
  return graph_->values()[static_cast<std::size_t>(id_)].placement;
}

Graph::Graph(int tensor_rank, int tensor_size, DType compute)
    : tensor_rank_(tensor_rank), tensor_size_(tensor_size), compute_(compute) {
  require(compute == DType::f32 || compute == DType::bf16, "a graph computes in f32 or bf16, not ",
          compute);
  require(0 <= tensor_rank && tensor_rank < tensor_size, "tensor rank ", tensor_rank,
          " does not lie in a tensor axis of ", tensor_size, " ranks");
}

int Graph::constant(ConstantPtr constant) {
  require(constant != nullptr, "a constant of a graph is null");
  const auto known = std::find(constants_.begin(), constants_.end(), constant);
  const auto number = static_cast<int>(known - constants_.begin());
  if (known == constants_.end()) constants_.push_back(std::move(constant));
  return number;
}

void Graph::assign(int id, ParameterGroup group) {
  const auto count = static_cast<int>(parameters_.size());
  require(0 <= id && id < count, "parameter ", id, " has no group: the graph has ", count,
          ", counted from 0");
  parameters_[static_cast<std::size_t>(id)].group = std::move(group);
}

void Graph::metric(const std::string& name, Value sum) {
  constexpr std::size_t longest = 24, most = 16;
  const auto fits = [](char c) {
    return c == '_' || ('a' <= c && c <= 'z') || ('0' <= c && c <= '9');
  };
  require(!name.empty() && name.size() <= longest && std::all_of(name.begin(), name.end(), fits),
          "metric '", name, "': a name is 1 to ", longest, " small letters, digits or underscores");
  require(std::none_of(metrics_.begin(), metrics_.end(),
                       [&](const auto& known) { return known.first == name; }),
          "metric '", name, "' is registered twice");
  require(metrics_.size() < most, "metric '", name, "': a model has at most ", most);
  require(sum && &sum.graph() == this, "metric '", name, "' is a value of another graph");
  const bool scalar =
      sum.shape().dims() == 0 && (sum.spec().dtype == DType::f32 || sum.spec().dtype == DType::f64);
  require(scalar && sum.placement() == Placement::replicated, "metric '", name, "' is ", sum.spec(),
          ", ", sum.placement(),
          " on the tensor axis: it has to be one f64 or f32 number without dims, replicated, "
          "for example from sum() or pointwise_sum()");
  metrics_.emplace_back(name, sum);
}

Graph::ScopeExit::~ScopeExit() {
  g.scopes_.resize(scope_depth);
  g.block_ = block;
  g.recompute_ = recompute;
}

Graph::ScopeExit Graph::enter_scope(const std::string& name) {
  require(!name.empty(), "a scope needs a name");
  scopes_.push_back(name);
  return {*this, scopes_.size() - 1, block_, recompute_};
}

Graph::ScopeExit Graph::enter_block(const std::string& name, int i) {
  require(block_ < 0, "block '", name, '.', i, "' inside block '", block_ < 0 ? "" : blocks_.back(),
          "': blocks are the units of the stage cut and do not nest; use scope()");
  const int outer = block_;
  scopes_.push_back(str(name, '.', i));
  block_ = static_cast<int>(blocks_.size());
  blocks_.push_back(scope_path('/'));
  return {*this, scopes_.size() - 1, outer, recompute_};
}

Graph::ScopeExit Graph::enter_recompute() {
  const int outer = recompute_;
  recompute_ = static_cast<int>(recompute_parents_.size());
  recompute_parents_.push_back(outer);
  return {*this, scopes_.size(), block_, outer};
}

std::string Graph::scope_path(char separator) const {
  std::string path;
  for (const std::string& scope : scopes_) {
    if (!path.empty()) path += separator;
    path += scope;
  }
  return path;
}

int Graph::add_value(ValueInfo info) {
  const int id = static_cast<int>(values_.size());
  if (info.root < 0) info.root = id;
  if (info.gradient_root < 0) info.gradient_root = id;
  values_.push_back(std::move(info));
  return id;
}

Value Graph::input(const std::string& name, Spec spec) {
  for (const int id : inputs_)
    require(values_[static_cast<std::size_t>(id)].name != name, "two inputs are named '", name,
            "'");
  Index bytes = size_bytes(spec.dtype);
  for (const Index extent : spec.shape)
    require(extent > 0 && !__builtin_mul_overflow(bytes, extent, &bytes), "input '", name, "' ",
            spec.shape, extent > 0 ? " is larger than any memory" : " has an empty dim");
  require(spec.packed(), "input '", name, "' has to be packed, but is ", spec);
  if (spec.dtype == DType::f32) spec.dtype = compute_;
  inputs_.push_back(add_value({.kind = ValueInfo::Kind::input,
                               .name = name,
                               .spec = spec,
                               .placement = Placement::replicated,
                               .node = -1,
                               .parameter = -1}));
  return {this, inputs_.back()};
}

Value Graph::parameter(const std::string& name, Shape global, Shard shard, Init init) {
  return parameters({{name, global, shard, init}});
}

namespace {

// What tensor rank `rank` of `size` holds of one logical tensor.
ParameterPart part_of(const ParameterSpec& spec, const std::string& full, int rank, int size) {
  ParameterPart part{
      full, spec.global, spec.shard, spec.init, {spec.global, spec.global}, spec.global, 0};
  for (int d = 0; d < spec.global.dims(); ++d) {
    require(spec.global[d] > 0, "parameter '", full, "' has an empty dim: ", spec.global);
    part.box.begin[d] = 0;
  }
  const int dim = spec.shard.dim;
  require(dim < spec.global.dims(), "parameter '", full, "' ", spec.global,
          " is sharded along dim ", dim, ", which it does not have");
  if (dim < 0) return part;
  const Index extent = spec.global[dim];
  require(spec.shard.padded || extent % size == 0, "parameter '", full, "' ", spec.global, ": dim ",
          dim, " (", extent, ") does not divide by --tensor-model-parallel-size ", size);
  const Index unit = spec.shard.padded ? Shard::padded_to : 1, wanted = (extent + size - 1) / size;
  const Index local = round_up(wanted, unit);
  const Index begin = std::min(extent, local * rank);
  part.local[dim] = local;
  part.box.begin[dim] = begin;
  part.box.size[dim] = std::min(extent, begin + local) - begin;
  return part;
}

bool same(const ParameterPart& a, const ParameterPart& b) {
  return a.name == b.name && a.global == b.global && a.shard.dim == b.shard.dim &&
         a.shard.padded == b.shard.padded && a.init.kind == b.init.kind &&
         a.init.scale == b.init.scale;
}

// The parts one after the other along dim 0; sets their offsets. Returns the shape of all together.
Shape side_by_side(std::vector<ParameterPart>& parts) {
  const ParameterPart& first = parts.front();
  Shape shape = first.local;
  Index offset = first.local.count();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    ParameterPart& part = parts[i];
    bool alike =
        part.local.dims() == shape.dims() && part.shard.dim == first.shard.dim && shape.dims() > 0;
    for (int d = 1; alike && d < shape.dims(); ++d) alike = part.local[d] == shape[d];
    require(alike, "parameters '", first.name, "' ", first.global, " and '", part.name, "' ",
            part.global,
            " cannot lie side by side along dim 0: all other dims and the sharded dim "
            "have to be the same");
    part.offset = offset;
    offset += part.local.count();
    shape[0] += part.local[0];
  }
  return shape;
}

}  // namespace

Value Graph::parameters(const std::vector<ParameterSpec>& specs) {
  require(!specs.empty(), "parameters() needs at least one logical tensor");
  std::vector<ParameterPart> parts;
  for (const ParameterSpec& spec : specs) {
    const std::string path = scope_path('.');
    require(!spec.name.empty(), "a parameter in ", path.empty() ? "the model itself" : "scope '",
            path, path.empty() ? "" : "'", " has no name");
    parts.push_back(part_of(spec, path.empty() ? spec.name : path + '.' + spec.name, tensor_rank_,
                            tensor_size_));
  }
  const Shape shape = side_by_side(parts);
  for (const ParameterPart& part : parts) {
    const auto found = part_of_name_.find(part.name);
    if (found == part_of_name_.end()) continue;
    const Parameter& old = parameters_[static_cast<std::size_t>(found->second.parameter)];
    if (std::equal(old.parts.begin(), old.parts.end(), parts.begin(), parts.end(), same))
      return {this, old.value};  // tied
    throw Error(
        str("parameter '", part.name, "' ", part.global, " exists already as another one, ",
            old.parts[found->second.part].global,
            ": tied parameters have to be declared alike (shape, shard, initial values, and "
            "what lies beside them); or give the second another name"));
  }
  const Placement placement =
      parts.front().shard.dim < 0 ? Placement::replicated : Placement::sharded;
  const int id = static_cast<int>(parameters_.size());
  const int value = add_value({.kind = ValueInfo::Kind::parameter,
                               .name = parts.front().name,
                               .spec = Spec(shape, compute_),
                               .placement = placement,
                               .node = -1,
                               .parameter = id});
  for (std::size_t i = 0; i < parts.size(); ++i) part_of_name_[parts[i].name] = {id, i};
  parameters_.push_back({.id = id,
                         .value = value,
                         .spec = Spec(shape, compute_),
                         .placement = placement,
                         .parts = std::move(parts),
                         .first_use = {}});
  return {this, value};
}

// Tracing, part two: an op is applied. Shapes, strides and placements are checked here, so that a
// mistake is reported with the op, the scope and all shapes, at the line of the user's forward pass
// that made it.

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
            " (Op::works_in): write it for both types, or compute in f32 (without --bf16)");
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
