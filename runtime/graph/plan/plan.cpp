// Plan: cut, program, lifetimes and offsets put together.
#include "runtime/graph/plan/plan.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "runtime/graph/constants.h"
#include "runtime/graph/plan/offsets.h"
#include "runtime/graph/plan/plan_state.h"
#include "runtime/graph/plan/work.h"

namespace trireme {

using namespace graph;

namespace {

Transfer transfer_of(const Plan::State& state, int region) {
  Transfer transfer;
  if (region < 0) return transfer;
  transfer.offset = state.offset_of(region);
  for (const Memory& memory : state.program.memory) {
    if (memory.region != region) continue;
    transfer.names.push_back(memory.name);
    // Not rounded up at the end, so that transports detect stages that disagree about a value.
    transfer.bytes = std::max(transfer.bytes, memory.region_offset + memory.bytes);
  }
  return transfer;
}

double flops_of(const Graph& graph, const Derivative& derivative, const StageView& view) {
  double flops = 0;
  for (const int n : view.nodes) {
    const Node& node = graph.nodes()[at(n)];
    if (!runs_forward(graph, node)) continue;
    flops += node.op->flops(specs_of(graph, node)) * passes_of(graph, derivative, node);
  }
  return flops;
}

bool made_in_backward(const Program& program, const Operand& result) {
  if (result.source != Operand::Source::memory) return false;
  const int made = program.memory[at(result.id)].begin;
  return program.steps[at(made)].phase != Phase::forward;
}

void copy_what_is_used(const Graph& graph, Plan::State& state) {
  for (const Step& step : state.program.steps)
    if (step.node >= 0) state.nodes.keep(graph.nodes(), step.node);
  for (const int p : state.program.parameters) state.parameters.keep(graph.parameters(), p);
  state.graph_parameters = graph.parameters().size();
}

}  // namespace

Plan::Plan(const Graph& graph, const Values& results, const StageCut& cut, int stage,
           PlanOptions options)
    : Plan(graph, results, cut, PlanBasis(graph, results, cut, options.mode), stage, options) {}

Plan::Plan(const Graph& graph, const Values& results, const StageCut& cut, const PlanBasis& basis,
           int stage, PlanOptions options) {
  const auto state = std::make_shared<State>();
  State& s = *state;
  require(0 <= stage && stage < cut.stages, "stage ", stage, " does not lie in a cut of ",
          cut.stages, " stages");
  s.stage = stage;
  s.stages = cut.stages;
  s.compute = graph.compute();
  s.options = options;
  s.device = graph.device();
  s.constant_offsets = constant_offsets(graph);
  for (const int input : graph.inputs()) s.inputs.push_back(info(graph, input));

  const Derivative& derivative = basis.state().derivative;
  const StageView& view = basis.state().views[at(stage)];
  s.program = make_program(graph, results, derivative, view, options);
  copy_what_is_used(graph, s);
  s.buffers = make_buffers(s.program, options.share);
  if (options.guard)
    for (Stretch& buffer : s.buffers) buffer.bytes += guard_bytes;
  const ArenaBytes bytes = place_buffers(s.buffers, options.pack);
  s.bytes.slot = bytes.slot;
  s.bytes.scratch = bytes.scratch;
  for (const Memory& memory : s.program.memory)
    if (memory.region < 0) s.bytes.unpacked += align_up(memory.bytes);
  s.receive_values = transfer_of(s, s.program.receive_values);
  s.send_values = transfer_of(s, s.program.send_values);
  s.receive_gradients = transfer_of(s, s.program.receive_gradients);
  s.send_gradients = transfer_of(s, s.program.send_gradients);
  for (const int p : s.program.parameters) {
    s.sums_over_tensor.push_back(s.parameters[p].gradient == Parameter::Gradient::partial);
    s.bytes.parameters += s.parameters[p].spec.bytes();
  }
  s.flops = flops_of(graph, derivative, view);
  s.work = work_of(graph, s);
  for (const Operand& result : s.program.results)
    s.result_in_backward.push_back(made_in_backward(s.program, result));
  state_ = state;
}

Plan::Plan(const Plan& like, int stage, std::vector<int> parameters)
    : state_(like.state_), own_(std::make_shared<const Own>(Own{stage, std::move(parameters)})) {
  require(own_->parameters.size() == like.parameters().size(), "stage ", stage, " has ",
          own_->parameters.size(), " parameters, and stage ", like.stage(), ", which is alike, ",
          like.parameters().size());
}

const Plan::State& Plan::state() const {
  require(own_ == nullptr, "internal: the plan of stage ", stage(), " is that of stage ",
          state_->stage, ", and runs nothing");
  return *state_;
}

int Plan::stage() const { return own_ ? own_->stage : state_->stage; }
int Plan::stages() const { return state_->stages; }
const PlanBytes& Plan::bytes() const { return state_->bytes; }
DType Plan::compute() const { return state_->compute; }
std::vector<Instance> Plan::instances() const {
  std::vector<Instance> all;
  for (std::size_t m = 0; m < state_->program.memory.size(); ++m) {
    const Memory& memory = state_->program.memory[m];
    if (memory.region >= 0) continue;
    const auto id = static_cast<int>(m);
    all.push_back({memory.name, memory.dtype, memory.bytes, memory.begin, memory.end,
                   state_->buffer_of(id).arena, state_->offset_of(id)});
  }
  return all;
}
const Transfer& Plan::receive_values() const { return state_->receive_values; }
const Transfer& Plan::send_values() const { return state_->send_values; }
const Transfer& Plan::receive_gradients() const { return state_->receive_gradients; }
const Transfer& Plan::send_gradients() const { return state_->send_gradients; }
const std::vector<int>& Plan::parameters() const {
  return own_ ? own_->parameters : state_->program.parameters;
}
const std::vector<bool>& Plan::sums_over_tensor() const { return state_->sums_over_tensor; }
const std::vector<int>& Plan::inputs() const { return state_->program.inputs; }
double Plan::flops() const { return state_->flops; }
const std::vector<StepWork>& Plan::work() const { return state_->work; }
int Plan::results() const { return static_cast<int>(state_->program.results.size()); }
bool Plan::computes(int i) const {
  return state_->program.results.at(at(i)).source != Operand::Source::none;
}
bool Plan::result_in_backward(int i) const { return state_->result_in_backward.at(at(i)); }

}  // namespace trireme
