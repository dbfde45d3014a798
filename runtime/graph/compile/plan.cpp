// Plan: cut, program, lifetimes and offsets put together.
#include "runtime/graph/compile/plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "runtime/core/at.h"
#include "runtime/core/show_bytes.h"
#include "runtime/graph/constants.h"
#include "runtime/graph/compile/lifetimes.h"
#include "runtime/graph/compile/plan_state.h"

namespace trireme::graph {
namespace {

// What the steps of a program do: the counts behind Plan::work.

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

/// `state`: with its memory placed.
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

}  // namespace
}  // namespace trireme::graph

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

// The tables of --dump-plan.

namespace {

constexpr std::size_t largest_shown = 20;

const char* name(Instance::Arena arena) {
  return arena == Instance::Arena::slot ? "slot" : "scratch";
}

std::string line(const char* what, Index bytes, const std::string& note = {}) {
  return fmt::format("  {:<22} {:>12}  {}\n", what, show_bytes(bytes), note);
}

/// 1, "tensor" -> "1 tensor"; 2 -> "2 tensors".
std::string counted(std::size_t count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

/// 4.2e6 -> "4.200 MFLOP".
std::string show_flops(double flops) {
  constexpr std::array units{"FLOP", "kFLOP", "MFLOP"};
  for (const char* unit : units) {
    if (flops < 1000) return fmt::format("{:.{}f} {}", flops, unit == units[0] ? 0 : 3, unit);
    flops /= 1000;
  }
  return fmt::format("{:.3f} GFLOP", flops);
}

std::string line(const char* what, const Transfer& transfer) {
  return line(what, transfer.bytes, counted(transfer.names.size(), "tensor"));
}

const char* name(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::load:
      return "load";
    case Step::Kind::forward:
      return "forward";
    case Step::Kind::seed:
      return "seed";
    case Step::Kind::zero:
      return "zero";
    case Step::Kind::copy:
      return "copy";
    case Step::Kind::add:
      return "add";
    case Step::Kind::backward:
      return "backward";
  }
  return "unknown";
}

// "name@slot+4096"
std::string where(const Plan::State& s, const Operand& o) {
  if (o.source == Operand::Source::none) return "-";
  if (o.source == Operand::Source::memory)
    return fmt::format("{}@{}+{}", s.program.memory[static_cast<std::size_t>(o.id)].name,
                       name(s.buffer_of(o.id).arena), s.offset_of(o.id));
  return fmt::format("{}{}", o.source == Operand::Source::gradient ? "grad " : "",
                     s.parameters[o.id].name());
}

std::string list(const Plan::State& s, const std::vector<Operand>& operands) {
  std::string out;
  for (const Operand& o : operands) out += (out.empty() ? "" : ", ") + where(s, o);
  return out;
}

}  // namespace

std::string Plan::describe() const {
  const State& s = *state_;
  std::vector<Instance> largest = instances();
  std::string out =
      fmt::format("memory plan of stage {} of {}: {}, {}, {} a micro-batch, computed in {}\n",
                  stage(), s.stages, counted(s.program.steps.size(), "step"),
                  counted(largest.size(), "instance"), show_flops(s.flops), name(s.compute));
  out += line("one slot", s.bytes.slot,
              "kept from forward to backward, one per micro-batch in flight");
  out += line("scratch", s.bytes.scratch, "shared by all slots");
  out += line("sum of all instances", s.bytes.unpacked, "if nothing shared or overlapped");
  out += line(
      "parameters", s.bytes.parameters,
      fmt::format("{} in {}{}", counted(s.program.parameters.size(), "tensor"), name(s.compute),
                  s.compute == DType::f32 ? ", and as much for their gradients"
                                          : "; masters and gradients in f32 besides"));
  if (s.stages > 1) {
    out += line("values received", s.receive_values) + line("values sent", s.send_values);
    out +=
        line("gradients received", s.receive_gradients) + line("gradients sent", s.send_gradients);
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Instance& a, const Instance& b) { return a.bytes > b.bytes; });
  largest.resize(std::min(largest.size(), largest_shown));
  out += fmt::format("  {:>14} {:<5} {:>12}  {:<8} {:>6} {:>6}  {}\n", "bytes", "type", "offset",
                     "arena", "first", "last", "largest tensors");
  for (const Instance& i : largest)
    out += fmt::format("  {:>14} {:<5} {:>12}  {:<8} {:>6} {:>6}  {}\n", i.bytes, name(i.dtype),
                       i.offset, name(i.arena), i.begin, i.end, i.name);
  out +=
      "  (an instance is one value from its first to its last step; arena: a slot, or the "
      "scratch)\n";
  return out;
}

std::string Plan::describe_steps() const {
  const State& s = *state_;
  std::string out;
  for (std::size_t k = 0; k < s.program.steps.size(); ++k) {
    const Step& step = s.program.steps[k];
    out += fmt::format("{:>5} {:<8} {}", k, name(step.kind),
                       step.node < 0 ? "" : s.nodes[step.node].name);
    if (step.kind == Step::Kind::forward)
      out += fmt::format(": {} -> {}", list(s, step.inputs), list(s, step.outputs));
    else if (step.makes_outputs)
      out += fmt::format(": {}; {} -> {}; {}", list(s, step.inputs), list(s, step.grad_outputs),
                         list(s, step.outputs), list(s, step.grad_inputs));
    else if (step.kind == Step::Kind::backward)
      out += fmt::format(": {}; {}; {} -> {}", list(s, step.inputs), list(s, step.outputs),
                         list(s, step.grad_outputs), list(s, step.grad_inputs));
    else
      out += fmt::format(": {} -> {}", where(s, step.from), where(s, step.to));
    out += '\n';
  }
  return out;
}

}  // namespace trireme
