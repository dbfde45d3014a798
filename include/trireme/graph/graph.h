// Graph: what tracing records. The user's forward pass runs once, on symbolic Values, before
// anything is allocated.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/graph/constant.h"
#include "trireme/graph/node.h"
#include "trireme/graph/op.h"
#include "trireme/graph/parameter.h"

namespace trireme {

class Graph;

/// A symbolic tensor. Cheap to copy; valid as long as its Graph.
class Value {
 public:
  Value() = default;
  Value(Graph* graph, int id) : graph_(graph), id_(id) {}
  Graph& graph() const { return *graph_; }
  int id() const { return id_; }
  explicit operator bool() const { return graph_ != nullptr; }
  const Spec& spec() const;
  const Shape& shape() const { return spec().shape; }
  Placement placement() const;
  /// Applies the op `O(args...)` to this value and returns its first output. For several inputs use
  /// apply<O>({a, b}, args...).
  template <class O, class... Args>
  Value apply(Args&&... args) const;

 private:
  Graph* graph_ = nullptr;
  int id_ = -1;
};
using Values = std::vector<Value>;

class Graph {
 public:
  /// `compute`: f32 or bf16, the type of parameters and of floating inputs as ops see them, and so
  /// of activations. Gradients of parameters are f32 always.
  explicit Graph(int tensor_rank = 0, int tensor_size = 1, DType compute = DType::f32);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int tensor_rank() const { return tensor_rank_; }
  int tensor_size() const { return tensor_size_; }
  DType compute() const { return compute_; }

  /// Sets the device that the graph will run on; call before tracing. Ops must work on it, and the
  /// workspace of some depends on it. Default: the default of DeviceTraits.
  void plan_for(const DeviceTraits& device) { device_ = device; }
  const DeviceTraits& device() const { return device_; }

  /// Declares a constant and returns its number, for Exec::constant. The same object again has the
  /// same number.
  int constant(ConstantPtr constant);
  const std::vector<ConstantPtr>& constants() const { return constants_; }

  /// Data of one micro-batch: dim 0 is the sample. Every stage that uses it loads it. An input
  /// declared f32 arrives in the compute type.
  Value input(const std::string& name, Spec spec);
  /// A parameter of the current scope. Sizes are global; local ones follow from the mesh. Throws:
  /// Error when the sharded dim does not divide by the tensor size and is not padded, or the name
  /// exists with another shape. The same full name again returns the same parameter (tied).
  Value parameter(const std::string& name, Shape global, Shard shard, Init init);
  /// Several logical tensors side by side along dim 0, sharded alike, as one Value.
  Value parameters(const std::vector<ParameterSpec>& parts);
  /// Sets the group of parameter `id`, whatever its pattern says. One that is not trained gets no
  /// gradient. Call before the graph is cut. Throws: Error when there is no such parameter.
  void assign(int id, ParameterGroup group);

  /// Runs f inside a named scope; returns what f returns.
  template <class F>
  auto scope(const std::string& name, F&& f);
  /// A scope named "name.i" that is a unit of the stage cut.
  template <class F>
  auto block(const std::string& name, int i, F&& f);
  /// Values inside are not kept: their forward runs again before their backward. Scopes may nest,
  /// and contain or cross blocks.
  template <class F>
  auto recompute(F&& f);

  /// Applies an op and returns its visible outputs. Throws: Error that names the op, the scope and
  /// all shapes.
  Values apply(OpPtr op, const Values& inputs);

  /// Reports `sum` beside the loss: a scalar, f32 or f64, over the targets of one micro-batch.
  /// Steps and evaluations give its mean per target, as for the loss (Metric, train/metrics.h). No
  /// gradient comes from it. Throws: Error that says what a metric or its name may not be.
  void metric(const std::string& name, Value sum);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ValueInfo>& values() const { return values_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Ids of input values, in order of declaration.
  const std::vector<int>& inputs() const { return inputs_; }
  /// Returns the metrics in the order in which they were registered.
  const std::vector<std::pair<std::string, Value>>& metrics() const { return metrics_; }
  const std::vector<std::string>& blocks() const { return blocks_; }
  /// Parent of each recompute scope, or -1.
  const std::vector<int>& recompute_parents() const { return recompute_parents_; }

 private:
  struct ScopeExit {
    Graph& g;
    std::size_t scope_depth;
    int block, recompute;
    ~ScopeExit();
  };
  ScopeExit enter_scope(const std::string& name);
  ScopeExit enter_block(const std::string& name, int i);
  ScopeExit enter_recompute();
  std::string scope_path(char separator) const;
  std::string unique_name(const std::string& op_name);
  int add_value(ValueInfo info);
  void add_output(Node& node, const Output& output, Placement placement);
  void note_gradients(const Node& node, Placement placement);

  int tensor_rank_, tensor_size_;
  DType compute_;
  DeviceTraits device_;
  std::vector<Node> nodes_;
  std::vector<ValueInfo> values_;
  std::vector<Parameter> parameters_;
  std::vector<int> inputs_;
  std::vector<std::pair<std::string, Value>> metrics_;
  std::vector<std::string> blocks_;
  std::vector<int> recompute_parents_;
  std::vector<std::string> scopes_;
  std::map<std::string, int> uses_of_name_;
  struct NamedPart {
    int parameter;
    std::size_t part;
  };
  std::map<std::string, NamedPart> part_of_name_;  // keyed by the name of the logical tensor
  int block_ = -1, recompute_ = -1;
  std::vector<ConstantPtr> constants_;
};

namespace detail {
/// The graph of the first value that has one. Throws: Error that names the op when none has.
Graph& graph_of(const Values& inputs, const Op& op);
}  // namespace detail

/// All visible outputs of the op `O(args...)` applied to `inputs`.
template <class O, class... Args>
Values apply_all(const Values& inputs, Args&&... args) {
  static_assert(std::is_base_of_v<Op, O>, "apply<O>: O is not derived from trireme::Op");
  constexpr bool fits = std::is_constructible_v<O, Args...>;
  static_assert(fits,
                "the constructor of this op does not take these arguments: an op of two inputs is "
                "applied by apply<O>({a, b}), not by a.apply<O>(b)");
  if constexpr (fits) {
    const auto op = std::make_shared<const O>(std::forward<Args>(args)...);
    return detail::graph_of(inputs, *op).apply(op, inputs);
  } else {
    return {};
  }
}
/// The first of them: apply<Gated>({a, b}, args...).
template <class O, class... Args>
Value apply(const Values& inputs, Args&&... args) {
  return apply_all<O>(inputs, std::forward<Args>(args)...).front();
}

template <class O, class... Args>
Value Value::apply(Args&&... args) const {
  return trireme::apply<O>(Values{*this}, std::forward<Args>(args)...);
}
template <class F>
auto Graph::scope(const std::string& name, F&& f) {
  const ScopeExit exit = enter_scope(name);
  return std::forward<F>(f)();
}
template <class F>
auto Graph::block(const std::string& name, int i, F&& f) {
  const ScopeExit exit = enter_block(name, i);
  return std::forward<F>(f)();
}
template <class F>
auto Graph::recompute(F&& f) {
  const ScopeExit exit = enter_recompute();
  return std::forward<F>(f)();
}

}  // namespace trireme
