// Continues Plan (runtime/graph/plan/plan.h).
// The tables of --dump-plan.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "runtime/core/show_bytes.h"
#include "runtime/graph/plan/plan_state.h"

namespace trireme {

using namespace graph;

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
