#include "runtime/graph/plan/work.h"

#include <algorithm>

#include "runtime/core/at.h"

namespace trireme::graph {
namespace {

double bytes_of(const Operand& operand) { return static_cast<double>(operand.spec.bytes()); }

BackwardWork backward_work(const Step& step) {
  using Gradient = BackwardWork::Gradient;
  BackwardWork work;
  work.makes_outputs = step.makes_outputs;
  work.gradients.reserve(step.grad_inputs.size());
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
  const Specs inputs = specs_of(graph, node);
  if (step.kind == Step::Kind::forward) {
    work.phase =
        step.phase == Phase::forward ? StepWork::Phase::forward : StepWork::Phase::recompute;
    work.bytes = node.op->bytes(inputs);
    work.flops = node.op->flops(inputs);
    work.parts = node.op->parts(inputs);
    return;
  }
  const BackwardWork backward = backward_work(step);
  work.phase = StepWork::Phase::backward;
  work.bytes = node.op->backward_bytes(inputs, backward);
  work.flops = node.op->backward_flops(inputs, backward);
  work.parts = node.op->backward_parts(inputs, backward);
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

double trireme::ProductWork::flops() const {
  return 2.0 * static_cast<double>(count) * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k);
}

double trireme::ProductWork::bytes() const {
  const Index factors = (m * k + k * n) * size_bytes(dtype),
              results = (adds ? 2 : 1) * m * n * size_bytes(result);
  return static_cast<double>(count) * static_cast<double>(factors + results);
}

double trireme::CollectiveWork::ring_bytes() const {
  const double once = bytes * (ranks - 1) / ranks;
  return kind == Kind::all_reduce ? 2 * once : once;
}

const char* trireme::name(CollectiveWork::Kind kind) {
  switch (kind) {
    case CollectiveWork::Kind::all_reduce:
      return "all_reduce";
    case CollectiveWork::Kind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveWork::Kind::all_gather:
      return "all_gather";
  }
  return "unknown";
}

double trireme::StepWork::loop_bytes() const {
  if (!parts.attention.empty()) return 0;
  double rest = bytes;
  for (const ProductWork& product : parts.products) rest -= product.bytes();
  for (const CollectiveWork& collective : parts.collectives) rest -= collective.ring_bytes();
  return std::max(0.0, rest);
}

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

namespace {

StepWork::Call call_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return StepWork::Call::forward;
    case Phase::backward:
      return StepWork::Call::backward;
    case Phase::parameter_backward:
      break;
  }
  return StepWork::Call::parameter_backward;
}

}  // namespace

std::vector<StepWork> work_of(const Graph& graph, const Plan::State& state) {
  std::vector<int> position_of(graph.parameters().size(), -1);
  for (std::size_t i = 0; i < state.program.parameters.size(); ++i)
    position_of[at(state.program.parameters[i])] = static_cast<int>(i);
  std::vector<StepWork> work;
  work.reserve(state.program.steps.size());
  for (const Step& step : state.program.steps) {
    work.push_back(count(graph, state, step));
    work.back().call = call_of(step.phase);
    for (const int parameter : step.ready) work.back().ready.push_back(position_of[at(parameter)]);
  }
  return work;
}

}  // namespace trireme::graph
