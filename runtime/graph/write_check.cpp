#include "runtime/graph/write_check.h"

#include <algorithm>

namespace trireme::graph {
namespace {

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

}  // namespace

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

}  // namespace trireme::graph
