#include "runtime/graph/exec.h"

#include "runtime/graph/region.h"

namespace trireme::graph {

StepExec::StepExec(const Step& step, const Plan::State& plan, const ExecutorMemory& memory,
                   const std::vector<int>& position_of_parameter, const RunContext& context)
    : step_(&step),
      node_(step.node < 0 ? nullptr : &plan.nodes[step.node]),
      constants_(memory.constants),
      constant_offsets_(plan.constant_offsets),
      context_(&context) {
  const auto bind = [&](const Operand& operand, Tensor& tensor) {
    if (operand.source == Operand::Source::none) return;
    tensor.shape = operand.spec.shape;
    tensor.strides = operand.spec.strides;
    tensor.dtype = operand.spec.dtype;
    const Index skip = operand.first * size_bytes(operand.spec.dtype);
    if (operand.source == Operand::Source::memory) {
      const Index offset = plan.offset_of(operand.id) + skip;
      if (plan.buffer_of(operand.id).arena == Instance::Arena::scratch)
        tensor.data = memory.scratch + offset;
      else
        in_slot_.push_back({&tensor.data, offset});
      return;
    }
    const auto position =
        static_cast<std::size_t>(position_of_parameter[static_cast<std::size_t>(operand.id)]);
    const auto& owners =
        operand.source == Operand::Source::parameter ? memory.parameters : memory.gradients;
    tensor.data = static_cast<std::byte*>(owners[position].data) + skip;
  };
  const auto bind_all = [&](const std::vector<Operand>& operands, std::vector<Tensor>& tensors) {
    tensors.resize(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) bind(operands[i], tensors[i]);
  };
  bind_all(step.inputs, inputs);
  bind_all(step.outputs, outputs);
  bind_all(step.grad_outputs, grad_outputs);
  bind_all(step.grad_inputs, grad_inputs);
  bind(step.workspace, workspace_);
  bind(step.to, to);
  bind(step.from, from);
  to_bytes = span(step.to.spec) * size_bytes(step.to.spec.dtype);
}

const void* StepExec::constant(int number) const {
  const auto known = static_cast<int>(constant_offsets_.size()) - 1;
  require(0 <= number && number < known, "op '", node_->name, "' asks for constant ", number,
          ", and its graph has ", known, ": Graph::constant returns the number while tracing");
  return constants_ + constant_offsets_[static_cast<std::size_t>(number)];
}

const Tensor& StepExec::get(const std::vector<Tensor>& tensors,
                            const std::vector<Operand>& operands, int i, const char* what) const {
  const auto k = static_cast<std::size_t>(i);
  if (i >= 0 && k < operands.size() && operands[k].source != Operand::Source::none) [[likely]]
    return tensors[k];
  const bool backward = step_->kind == Step::Kind::backward;
  throw Error(str("op '", node_->name, "' asks in ", backward ? "backward" : "forward", " for ",
                  what, ' ', i, ", which is not there",
                  backward
                      ? ": what backward reads has to be declared by saved(), and gradients are "
                        "there only where wants(i) holds"
                      : ""));
}

}  // namespace trireme::graph
