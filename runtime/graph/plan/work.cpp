#include "runtime/graph/plan/work.h"

#include "runtime/core/at.h"

namespace trireme::graph {
namespace {

double bytes_of(const Operand& operand) { return static_cast<double>(operand.spec.bytes()); }

BackwardWork backward_work(const Step& step) {
  using Gradient = BackwardWork::Gradient;
  BackwardWork work;
  work.makes_outputs = step.makes_outputs;
  for (std::size_t i = 0; i < step.grad_inputs.size(); ++i)
    work.gradients.push_back(step.grad_inputs[i].source == Operand::Source::none ? Gradient::none
                             : step.accumulate[i] != 0                           ? Gradient::added
                                                       : Gradient::assigned);
  return work;
}

void count_op(const Graph& graph, const Step& step, StepWork& work) {
  const Node& node = graph.nodes()[at(step.node)];
  work.op = node.op->name();
  work.name = node.name;
  Specs inputs;
  for (const int input : node.inputs) inputs.push_back(graph.values()[at(input)].spec);
  if (step.kind == Step::Kind::forward) {
    work.phase =
        step.phase == Phase::forward ? StepWork::Phase::forward : StepWork::Phase::recompute;
    work.bytes = node.op->bytes(inputs);
    work.flops = node.op->flops(inputs);
    return;
  }
  const BackwardWork backward = backward_work(step);
  work.phase = StepWork::Phase::backward;
  work.bytes = node.op->backward_bytes(inputs, backward);
  work.flops = node.op->backward_flops(inputs, backward);
}

/// A copy onto itself: two names of one memory.
bool is_in_place(const Plan::State& state, const Step& step) {
  const Operand &to = step.to, &from = step.from;
  if (to.source != Operand::Source::memory || from.source != Operand::Source::memory) return false;
  return state.buffer_of(to.id).arena == state.buffer_of(from.id).arena &&
         state.offset_of(to.id) + to.first * size_bytes(to.spec.dtype) ==
             state.offset_of(from.id) + from.first * size_bytes(from.spec.dtype);
}

StepWork count(const Graph& graph, const Plan::State& state, const Step& step) {
  StepWork work;
  switch (step.kind) {
    case Step::Kind::load:
      work.op = "load";
      work.name = state.inputs[at(step.input)].name;
      work.bytes = 2 * bytes_of(step.to);
      break;
    case Step::Kind::seed:
      work.op = "seed";
      work.bytes = bytes_of(step.to);
      break;
    case Step::Kind::zero:
      work.op = "zero";
      work.bytes = bytes_of(step.to);
      break;
    case Step::Kind::copy:
      work.op = "copy";
      work.idle = is_in_place(state, step);
      work.bytes = work.idle ? 0 : bytes_of(step.from) + bytes_of(step.to);
      break;
    case Step::Kind::add:
      work.op = "add";
      work.bytes = bytes_of(step.from) + 2 * bytes_of(step.to);
      work.flops = static_cast<double>(step.to.spec.shape.count());
      break;
    case Step::Kind::forward:
    case Step::Kind::backward:
      count_op(graph, step, work);
      return work;
  }
  if (step.node >= 0) work.name = graph.nodes()[at(step.node)].name;
  return work;
}

}  // namespace

}  // namespace trireme::graph

const char* trireme::name(StepWork::Phase phase) {
  switch (phase) {
    case StepWork::Phase::forward:
      return "forward";
    case StepWork::Phase::recompute:
      return "recompute";
    case StepWork::Phase::backward:
      return "backward";
    case StepWork::Phase::step:
      return "step";
  }
  return "unknown";
}

namespace trireme::graph {

std::vector<StepWork> work_of(const Graph& graph, const Plan::State& state) {
  std::vector<StepWork> work;
  for (const Step& step : state.program.steps) work.push_back(count(graph, state, step));
  return work;
}

}  // namespace trireme::graph
