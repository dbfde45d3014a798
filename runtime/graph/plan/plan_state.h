// What a Plan holds, for the Executor. Copies what it needs of the graph, which may then be
// destroyed.
#pragma once

#include "runtime/graph/plan/lifetimes.h"
#include "runtime/graph/plan/plan.h"
#include "runtime/graph/plan/program.h"

namespace trireme::graph {

/// Guard bytes after every buffer with PlanOptions::guard.
constexpr Index guard_bytes = 64;

}  // namespace trireme::graph

namespace trireme {

struct Plan::State {
  int stage = 0, stages = 1;
  DType compute = DType::f32;
  PlanOptions options;
  DeviceTraits device;
  std::vector<Index> constant_offsets;
  std::vector<Node> nodes;  // of the graph, by id; empty where no step needs it
  std::vector<std::string> blocks;
  std::vector<Parameter> parameters;  // of the graph, by id; empty where the stage has it not
  std::vector<ValueInfo> inputs;      // of the graph, by position
  graph::Program program;
  std::vector<graph::Stretch> buffers;
  PlanBytes bytes;
  std::vector<Instance> instances;
  Transfer receive_values, send_values, receive_gradients, send_gradients;
  std::vector<bool> sums_over_tensor;
  double flops = 0;
  std::vector<StepWork> work;  // of the steps
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
