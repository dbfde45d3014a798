// Executor: every tensor and every Exec is made at construction; a call moves the pointers that lie
// in the slot and runs down the list of steps.
#include "runtime/graph/executor.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/core/at.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/graph/compile/plan_state.h"
#include "runtime/graph/exec.h"

namespace trireme::graph {
namespace {

/// WriteCheck, for --check-finite: checks that an op writes all of its outputs, and nothing past
/// them.
class WriteCheck {
 public:
  /// Borrows all of them. Without PlanOptions::guard nothing lies behind memory that could be
  /// watched.
  WriteCheck(const Plan::State& plan, std::byte* scratch, Stream& stream);

  /// What the op of `step` has to write becomes NaN, unless the op reads what lies there; what lies
  /// behind, a pattern.
  void before(const Step& step, const StepExec& exec, std::byte* slot);
  /// Waits for the stream. Returns which output the op has overrun: "output 0". Empty: none.
  std::string written_behind(const Step& step, std::byte* slot);

 private:
  std::byte* behind(const Operand& operand, std::byte* slot) const;
  void forget(const Tensor& tensor, const std::vector<const Tensor*>& read);

  const Plan::State& plan_;
  std::byte* scratch_;
  Stream& stream_;
  std::vector<std::byte> nan_;
  std::vector<std::byte> guard_;
};

using Tensors = std::vector<Tensor>;

bool meet(const Tensor& a, const Tensor& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.data);
  const auto* b_begin = static_cast<const std::byte*>(b.data);
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

/// f("output ", i, operand) for all that an op may write.
template <class F>
void for_each_written(const Step& step, F&& f) {
  if (step.kind == Step::Kind::forward || step.makes_outputs)
    for (std::size_t i = 0; i < step.outputs.size(); ++i) f("output ", i, step.outputs[i]);
  for (std::size_t i = 0; i < step.grad_inputs.size(); ++i)
    f("the gradient of input ", i, step.grad_inputs[i]);
}

/// Fills `to` with repeated copies of `pattern`.
void fill(Stream& stream, std::byte* to, Index bytes, const std::vector<std::byte>& pattern) {
  const auto chunk = static_cast<Index>(pattern.size());
  for (Index done = 0; done < bytes; done += chunk)
    stream.copy(to + done, pattern.data(), std::min(chunk, bytes - done));
}

WriteCheck::WriteCheck(const Plan::State& plan, std::byte* scratch, Stream& stream)
    : plan_(plan),
      scratch_(scratch),
      stream_(stream),
      nan_(1 << 16, std::byte{0xff}),
      guard_(plan.options.guard ? guard_bytes : 0, std::byte{0xa5}) {}

/// Null where nothing is left free behind the memory: parts of a transfer lie side by side.
std::byte* WriteCheck::behind(const Operand& operand, std::byte* slot) const {
  if (guard_.empty() || operand.source != Operand::Source::memory) return nullptr;
  const Memory& memory = plan_.program.memory[static_cast<std::size_t>(operand.id)];
  if (memory.region >= 0) return nullptr;
  const Stretch& buffer = plan_.buffer_of(operand.id);
  std::byte* arena = buffer.arena == Instance::Arena::slot ? slot : scratch_;
  return arena + buffer.offset + memory.bytes;
}

void WriteCheck::forget(const Tensor& tensor, const std::vector<const Tensor*>& read) {
  if (!is_floating(tensor.dtype) || !tensor.packed()) return;
  if (std::any_of(read.begin(), read.end(), [&](const Tensor* r) { return meet(*r, tensor); }))
    return;
  fill(stream_, static_cast<std::byte*>(tensor.data), tensor.bytes(), nan_);
}

void WriteCheck::before(const Step& step, const StepExec& exec, std::byte* slot) {
  std::vector<const Tensor*> read;
  const auto add = [&](const Tensors& tensors) {
    for (const Tensor& tensor : tensors)
      if (tensor.data != nullptr) read.push_back(&tensor);
  };
  add(exec.inputs);
  add(exec.grad_outputs);
  const bool writes_outputs = step.kind == Step::Kind::forward || step.makes_outputs;
  if (!writes_outputs) add(exec.outputs);
  for (std::size_t i = 0; writes_outputs && i < step.outputs.size(); ++i)
    if (step.outputs[i].source == Operand::Source::memory) forget(exec.outputs[i], read);
  for (std::size_t i = 0; i < step.grad_inputs.size(); ++i)
    if (step.grad_inputs[i].source == Operand::Source::memory &&
        !exec.accumulate(static_cast<int>(i)))
      forget(exec.grad_inputs[i], read);
  for_each_written(step, [&](const char*, std::size_t, const Operand& operand) {
    if (std::byte* at = behind(operand, slot)) fill(stream_, at, guard_bytes, guard_);
  });
}

std::string WriteCheck::written_behind(const Step& step, std::byte* slot) {
  std::string found;
  for_each_written(step, [&](const char* what, std::size_t i, const Operand& operand) {
    const std::byte* at = behind(operand, slot);
    if (at == nullptr || !found.empty()) return;
    std::vector<std::byte> now(guard_.size());
    stream_.copy(now.data(), at, guard_bytes);
    stream_.synchronize();
    if (now != guard_) found = str(what, i);
  });
  return found;
}

}  // namespace
}  // namespace trireme::graph

namespace trireme {

using namespace graph;

namespace {

bool runs_an_op(const Step& step) {
  return step.kind == Step::Kind::forward || step.kind == Step::Kind::backward;
}

ExecutorHooks::Pass pass_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return ExecutorHooks::Pass::forward;
    case Phase::backward:
      return ExecutorHooks::Pass::backward;
    case Phase::parameter_backward:
      break;
  }
  return ExecutorHooks::Pass::parameter_backward;
}

}  // namespace

struct Executor::State {
  State(const Plan& plan_, ExecutorMemory memory_, Stream& stream_, Mesh& mesh_,
        ExecutorHooks& hooks_, ExecutorOptions options_);

  const Plan::State& plan;
  ExecutorMemory memory;
  Stream& stream;
  ExecutorHooks& hooks;
  ExecutorOptions options;
  RunContext context;
  std::deque<StepExec> steps;  // never moved: they point into themselves
  std::array<int, phases + 1> phase_begin{};
  std::vector<int> position_of_parameter;  // graph id -> Plan::parameters()
  std::vector<std::byte> poison;
  std::optional<WriteCheck> write_check;

  std::byte* slot_base(int slot) const { return memory.slots + slot * memory.slot_stride; }
  void run(Phase phase, int slot, const MicroBatch& batch);
  void run_step(int s, int slot, const MicroBatch& batch);
  void run_node(const Step& step, StepExec& exec, int slot, const MicroBatch& batch);
  void prepare(int s, Preparation& preparation);
  void load(const Step& step, const StepExec& exec, const MicroBatch& batch);
  void check_finite(const Step& step, const StepExec& exec, const MicroBatch& batch);
  void fill_dead(const Step& step, int slot);
  void check_device() const;
  void check_memory() const;
};

Executor::State::State(const Plan& plan_, ExecutorMemory memory_, Stream& stream_, Mesh& mesh_,
                       ExecutorHooks& hooks_, ExecutorOptions options_)
    : plan(plan_.state()),
      memory(std::move(memory_)),
      stream(stream_),
      hooks(hooks_),
      options(options_),
      context{&stream_, &mesh_, options_.seed, memory.scalars, 0},
      position_of_parameter(plan.graph_parameters, -1) {
  check_device();
  check_memory();
  const std::vector<int>& order = plan.program.parameters;
  for (std::size_t p = 0; p < order.size(); ++p)
    position_of_parameter[at(order[p])] = static_cast<int>(p);
  for (const Step& step : plan.program.steps) {
    steps.emplace_back(step, plan, memory, position_of_parameter, context);
    ++phase_begin[at(static_cast<int>(step.phase)) + 1];
  }
  for (std::size_t p = 1; p < phase_begin.size(); ++p) phase_begin[p] += phase_begin[p - 1];
  if (plan.options.poison) poison.assign(1 << 16, std::byte{0xff});
  if (options.check_finite) write_check.emplace(plan, memory.scratch, stream);
}

void Executor::State::check_device() const {
  const DeviceTraits& device = stream.device().traits();
  require(plan.device == device, "a graph that was planned for a ", plan.device.describe(),
          " cannot run on a ", device.describe(), ": call Graph::plan_for before tracing");
}

void Executor::State::check_memory() const {
  const auto check = [&](const std::vector<Tensor>& tensors, const char* what, DType dtype,
                         bool of_frozen) {
    const auto& order = plan.program.parameters;
    require(tensors.size() == order.size(), "the executor of stage ", plan.stage, " needs ",
            order.size(), ' ', what, ", not ", tensors.size());
    for (std::size_t p = 0; p < order.size(); ++p) {
      const Parameter& parameter = plan.parameters[order[p]];
      if (parameter.frozen() && !of_frozen) continue;
      require(tensors[p].shape == parameter.spec.shape && tensors[p].dtype == dtype &&
                  tensors[p].packed() && tensors[p].data != nullptr,
              what, " of '", parameter.name(), "' has to be a packed ", dtype, ' ',
              parameter.spec.shape, ", not ", tensors[p].dtype, ' ', tensors[p].shape);
    }
  };
  check(memory.parameters, "parameters", plan.compute, true);
  if (plan.options.mode == PlanOptions::Mode::training)
    check(memory.gradients, "gradients", DType::f32, false);
  require(plan.bytes.slot == 0 || memory.slots != nullptr, "the executor has no slots");
  require(plan.bytes.scratch == 0 || memory.scratch != nullptr, "the executor has no scratch");
  require(plan.constant_offsets.back() == 0 || memory.constants != nullptr,
          "the executor has no constants");
  require(memory.scalars != nullptr, "the executor has no scalars of its step");
  require(memory.slot_stride >= plan.bytes.slot, "slots are ", memory.slot_stride,
          " bytes apart, but the plan needs ", plan.bytes.slot);
}

void Executor::State::run(Phase phase, int slot, const MicroBatch& batch) {
  require(slot >= 0, "slot ", slot, " does not exist");
  context.first_sample = batch.first_sample;
  hooks.pass_begins(pass_of(phase), batch);
  const Phase gradients = plan.options.backward == PlanOptions::Backward::split
                              ? Phase::parameter_backward
                              : Phase::backward;
  if (phase == gradients && batch.last)  // those that nothing is added to
    for (const int parameter : plan.program.ready_first)
      hooks.gradient_ready(position_of_parameter[at(parameter)]);
  const std::size_t p = at(static_cast<int>(phase));
  for (int s = phase_begin[p]; s < phase_begin[p + 1]; ++s) run_step(s, slot, batch);
}

void Executor::State::run_step(int s, int slot, const MicroBatch& batch) {
  const Step& step = plan.program.steps[at(s)];
  StepExec& exec = steps[at(s)];
  hooks.step_begins(s);
  exec.enter(slot_base(slot));
  switch (step.kind) {
    case Step::Kind::load:
      load(step, exec, batch);
      break;
    case Step::Kind::zero:
      stream.zero(exec.to.data, exec.to_bytes);
      break;
    case Step::Kind::add:
      stream.add(exec.to, exec.from);
      break;
    case Step::Kind::copy:
      if (exec.to.data != exec.from.data) stream.copy(exec.to, exec.from);
      break;
    case Step::Kind::seed:
      if (exec.to.dtype == DType::f64)
        stream.copy(exec.to.data, &memory.scalars->loss_scale, exec.to.bytes());
      else
        stream.copy(exec.to.data, &memory.scalars->loss_scale_f32, exec.to.bytes());
      break;
    case Step::Kind::forward:
    case Step::Kind::backward:
      run_node(step, exec, slot, batch);
      break;
  }
  hooks.step_queued(s);
  if (plan.options.poison) fill_dead(step, slot);
  if (batch.last)
    for (const int parameter : step.ready)
      hooks.gradient_ready(position_of_parameter[at(parameter)]);
  hooks.op_boundary();
}

void Executor::State::run_node(const Step& step, StepExec& exec, int slot,
                               const MicroBatch& batch) {
  const RunNode& node = plan.nodes[step.node];
  const bool forward = step.kind == Step::Kind::forward;
  if (write_check) write_check->before(step, exec, slot_base(slot));
  try {
    forward ? node.op->forward(exec) : node.op->backward(exec);
  } catch (const PeerError&) {
    throw;  // not of this op
  } catch (...) {
    throw Error(str(forward ? "forward" : "backward", " of '", node.name, "' in micro-batch ",
                    batch.number, " of step ", batch.step, ": ", current_exception_text()));
  }
  if (!write_check) return;
  const std::string behind = write_check->written_behind(step, slot_base(slot));
  require(behind.empty(), "'", node.name, "' writes beyond the end of ", behind, " in ",
          forward ? "forward" : "backward", " of micro-batch ", batch.number, " of step ",
          batch.step);
  check_finite(step, exec, batch);
}

/// Uses slot 0 for all slots: they have the same alignment.
void Executor::State::prepare(int s, Preparation& preparation) {
  const Step& step = plan.program.steps[at(s)];
  const RunNode& node = plan.nodes[step.node];
  StepExec& exec = steps[at(s)];
  exec.enter(slot_base(0));
  const bool forward = step.kind == Step::Kind::forward;
  try {
    forward ? node.op->prepare_forward(exec, preparation)
            : node.op->prepare_backward(exec, preparation);
  } catch (...) {
    throw Error(str("preparing ", forward ? "forward" : "backward", " of '", node.name,
                    "': ", current_exception_text()));
  }
}

void Executor::State::load(const Step& step, const StepExec& exec, const MicroBatch& batch) {
  const std::string& name = plan.inputs[at(step.input)].name;
  require(at(step.input) < batch.inputs.size(), "micro-batch ", batch.number, " has ",
          batch.inputs.size(), " inputs, but stage ", plan.stage, " reads input ", step.input,
          ", '", name, "'");
  const Tensor& from = batch.inputs[at(step.input)];
  require(from.data != nullptr && from.shape == exec.to.shape && from.dtype == exec.to.dtype &&
              from.packed(),
          "input '", name, "' of micro-batch ", batch.number, " has to be a packed ", exec.to.dtype,
          ' ', exec.to.shape, ", not ", from.dtype, ' ', from.shape,
          from.data == nullptr ? " without data" : "");
  stream.copy(exec.to.data, from.data, from.bytes());
}

void Executor::State::check_finite(const Step& step, const StepExec& exec,
                                   const MicroBatch& batch) {
  const auto check = [&](const std::vector<Operand>& operands, const std::vector<Tensor>& tensors,
                         const char* what) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].source == Operand::Source::none || !is_floating(tensors[i].dtype)) continue;
      require(stream.wait_and_check_finite(tensors[i]), "'", plan.nodes[step.node].name,
              "': ", what, i, " is not finite in micro-batch ", batch.number, " of step ",
              batch.step, " (what an op leaves unwritten is NaN under --check-finite)");
    }
  };
  if (step.kind == Step::Kind::forward || step.makes_outputs)
    check(step.outputs, exec.outputs, "output ");
  check(step.grad_inputs, exec.grad_inputs, "the gradient of input ");
}

// Fills dead memory with NaN, so that a later read of it is noticed.
void Executor::State::fill_dead(const Step& step, int slot) {
  for (const int b : step.deaths) {
    const Stretch& buffer = plan.buffers[at(b)];
    std::byte* base = buffer.arena == Instance::Arena::slot ? slot_base(slot) : memory.scratch;
    fill(stream, base + buffer.offset, buffer.bytes, poison);
  }
}

Executor::Executor(const Plan& plan, ExecutorMemory memory, Stream& stream, Mesh& mesh,
                   ExecutorHooks& hooks, ExecutorOptions options)
    : state_(std::make_unique<State>(plan, std::move(memory), stream, mesh, hooks, options)) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;

void Executor::prepare(Preparation& preparation, const std::function<void()>& after_each) {
  for (std::size_t s = 0; s < state_->steps.size(); ++s) {
    if (!runs_an_op(state_->plan.program.steps[s])) continue;
    state_->prepare(static_cast<int>(s), preparation);
    after_each();
  }
}

Index Executor::preparations() const {
  const auto& steps = state_->plan.program.steps;
  return std::count_if(steps.begin(), steps.end(), runs_an_op);
}

void Executor::forward(int slot, const MicroBatch& batch) {
  state_->run(Phase::forward, slot, batch);
}

void Executor::backward(int slot, const MicroBatch& batch, BackwardPart part) {
  State& s = *state_;
  require(s.plan.options.mode == PlanOptions::Mode::training,
          "a forward-only plan has no backward");
  const bool split = s.plan.options.backward == PlanOptions::Backward::split;
  require(split || part == BackwardPart::both,
          "input and parameter gradients apart need a plan with Backward::split");
  if (part != BackwardPart::parameter) s.run(Phase::backward, slot, batch);
  if (split && part != BackwardPart::input) s.run(Phase::parameter_backward, slot, batch);
}

Tensor Executor::result(int slot, int i) const {
  const Plan::State& plan = state_->plan;
  const auto& results = plan.program.results;
  require(0 <= i && at(i) < results.size(), "result ", i, " does not exist; the plan has ",
          results.size());
  const Operand& operand = results[at(i)];
  require(operand.source == Operand::Source::memory, "stage ", plan.stage,
          " does not compute result ", i);
  Tensor tensor;
  tensor.shape = operand.spec.shape;
  tensor.strides = operand.spec.strides;
  tensor.dtype = operand.spec.dtype;
  tensor.data = state_->slot_base(slot) + plan.offset_of(operand.id) +
                operand.first * size_bytes(operand.spec.dtype);
  return tensor;
}

std::byte* Executor::transfer(int slot, const Transfer& transfer) const {
  return state_->slot_base(slot) + transfer.offset;
}

}  // namespace trireme
