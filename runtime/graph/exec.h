// StepExec: the Exec of one step. Created once; a call only moves the tensors in the slot.
#pragma once

#include "runtime/graph/compile/plan_state.h"
#include "runtime/graph/executor.h"

namespace trireme::graph {

/// What changes from call to call, shared by all steps.
struct RunContext {
  Stream* stream;
  Mesh* mesh;
  std::uint64_t seed;
  const StepScalars* scalars;
  Index first_sample;
};

class StepExec final : public Exec {
 public:
  StepExec(const Step& step, const Plan::State& plan, const ExecutorMemory& memory,
           const std::vector<int>& position_of_parameter, const RunContext& context);
  StepExec(const StepExec&) = delete;
  StepExec& operator=(const StepExec&) = delete;

  /// Points all tensors that lie in the slot into this one.
  void enter(std::byte* slot) {
    if (slot == slot_) return;
    slot_ = slot;
    for (const InSlot& in_slot : in_slot_) *in_slot.data = slot + in_slot.offset;
  }

  const Tensor& input(int i) const override { return get(inputs, step_->inputs, i, "input"); }
  const Tensor& output(int i) const override { return get(outputs, step_->outputs, i, "output"); }
  const Tensor& grad_output(int i) const override {
    return get(grad_outputs, step_->grad_outputs, i, "the gradient of output");
  }
  const Tensor& grad_input(int i) const override {
    return get(grad_inputs, step_->grad_inputs, i, "the gradient of input");
  }
  bool wants(int i) const override {
    const auto k = static_cast<std::size_t>(i);
    return k < step_->grad_inputs.size() && step_->grad_inputs[k].source != Operand::Source::none;
  }
  bool accumulate(int i) const override {
    return wants(i) && step_->accumulate[static_cast<std::size_t>(i)] != 0;
  }
  bool makes_outputs() const override { return step_->makes_outputs; }
  const void* constant(int number) const override;
  void* workspace() const override { return workspace_.data; }
  Communicator& group(Role role) const override { return context_->mesh->group(role); }
  Stream& stream() const override { return *context_->stream; }
  StepRandom random() const override {
    return {random_key(context_->seed, node_->name), context_->scalars};
  }
  Index first_sample() const override { return context_->first_sample; }

  std::vector<Tensor> inputs, outputs, grad_outputs, grad_inputs;
  Tensor to, from;
  Index to_bytes = 0;  // with the holes of a strided gradient

 private:
  const Tensor& get(const std::vector<Tensor>& tensors, const std::vector<Operand>& operands, int i,
                    const char* what) const;

  struct InSlot {
    void** data;
    Index offset;
  };
  const Step* step_;
  const RunNode* node_;
  const std::byte* constants_;
  const std::vector<Index>& constant_offsets_;
  const RunContext* context_;
  std::byte* slot_ = nullptr;
  std::vector<InSlot> in_slot_;
  Tensor workspace_;
};

}  // namespace trireme::graph
