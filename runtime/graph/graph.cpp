// Tracing, part one: scopes, inputs and parameters. Part two, ops, is in apply.cpp.
#include "trireme/graph/graph.h"

#include <algorithm>

#include "runtime/core/round_up.h"

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

void Graph::freeze(int id) {
  const auto count = static_cast<int>(parameters_.size());
  require(0 <= id && id < count, "parameter ", id, " cannot be frozen: the graph has ", count,
          ", counted from 0");
  parameters_[static_cast<std::size_t>(id)].frozen = true;
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
          dim, " (", extent, ") does not divide by tensor_size ", size);
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
  const bool decay = parts.front().global.dims() > 1;
  for (std::size_t i = 0; i < parts.size(); ++i) part_of_name_[parts[i].name] = {id, i};
  parameters_.push_back({.id = id,
                         .value = value,
                         .spec = Spec(shape, compute_),
                         .placement = placement,
                         .decay = decay,
                         .parts = std::move(parts),
                         .first_use = {}});
  return {this, value};
}

}  // namespace trireme
