// What a Plan holds, for the Executor. Copies what it needs of the graph, which may then be
// destroyed.
#pragma once

#include "runtime/graph/compile/lifetimes.h"
#include "runtime/graph/compile/plan.h"
#include "runtime/graph/compile/program.h"

namespace trireme::graph {

/// Guard bytes after every buffer with PlanOptions::guard.
constexpr Index guard_bytes = 64;

/// What runs a node.
struct RunNode {
  explicit RunNode(const Node& node) : name(node.name), op(node.op) {}
  std::string name;
  OpPtr op;
};

/// What a plan needs of those elements of a table that it uses, by their index in it: a stage of a
/// large model has a small part of its nodes, and many stages may be planned.
template <class T>
class Kept {
 public:
  template <class Element>
  void keep(const std::vector<Element>& table, int index) {
    places_.resize(table.size(), -1);
    int& place = places_[static_cast<std::size_t>(index)];
    if (place >= 0) return;
    place = static_cast<int>(kept_.size());
    kept_.emplace_back(table[static_cast<std::size_t>(index)]);
  }
  /// Returns an element that is kept.
  const T& operator[](int index) const {
    return kept_[static_cast<std::size_t>(places_[static_cast<std::size_t>(index)])];
  }

 private:
  std::vector<int> places_;  // by index: in `kept_`, or -1
  std::vector<T> kept_;
};

}  // namespace trireme::graph

namespace trireme {

struct Plan::State {
  int stage = 0, stages = 1;
  DType compute = DType::f32;
  PlanOptions options;
  DeviceTraits device;
  std::vector<Index> constant_offsets;
  graph::Kept<graph::RunNode> nodes;  // nodes of steps, by their ids in the graph
  graph::Kept<Parameter> parameters;  // parameters of the stage, by their ids in the graph
  std::size_t graph_parameters = 0;   // how many the graph has
  std::vector<ValueInfo> inputs;      // inputs of the graph, by position
  graph::Program program;
  std::vector<graph::Stretch> buffers;
  PlanBytes bytes;
  Transfer receive_values, send_values, receive_gradients, send_gradients;
  std::vector<bool> sums_over_tensor;
  double flops = 0;
  std::vector<StepWork> work;  // one per step
  std::vector<bool> result_in_backward;

  const graph::Stretch& buffer_of(int memory) const {
    return buffers[static_cast<std::size_t>(
        program.memory[static_cast<std::size_t>(memory)].buffer)];
  }
  /// Bytes from the start of the arena of buffer_of(memory).
  Index offset_of(int memory) const {
    return buffer_of(memory).offset +
           program.memory[static_cast<std::size_t>(memory)].region_offset;
  }
};

}  // namespace trireme
