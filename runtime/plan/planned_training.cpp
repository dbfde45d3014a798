#include "runtime/plan/planned_training.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/kernels/stream_bytes.h"

#include "runtime/optim/optimizer.h"
#include "runtime/optim/replica_hashes.h"
#include "runtime/optim/step_hashes.h"
#include "runtime/plan/reduction_order.h"

namespace trireme {
namespace {

PlannedPass plan_train(const Model& model, const PlanTarget& target) {
  std::shared_ptr<const StageProgram> program = train_program(target);
  check_reduction_order(target);
  std::vector<PlanOptions::Backward> backward;
  for (int chunk = 0; chunk < program->shape.chunks; ++chunk)
    backward.push_back(program->splits_backward(chunk) ? PlanOptions::Backward::split
                                                       : PlanOptions::Backward::whole);
  PlannedModel planned = plan_training(model.loss, target, backward);
  check_inputs(*planned.graph, target.spec.micro_batch_size);
  return {std::move(planned), std::move(program)};
}

PlannedPass plan_evaluate(const Model& model, const PlanTarget& target, const PlannedPass& train,
                          PlannedTraining::Passes planned) {
  const bool shares_graph = target.cache != nullptr && !model.evaluation;
  if (shares_graph && planned == PlannedTraining::Passes::train)
    return train.without_chunks();  // its basis says more than that of a forward pass
  const Forward trace = shares_graph ? Forward() : model.evaluation ? model.evaluation : model.loss;
  return {plan_evaluation(trace, target, train.model()),
          forward_program(target, target.pipeline())};
}

std::optional<PlannedPass> plan_generation(const Model& model, const PlanTarget& target,
                                           const PlannedPass& train) {
  if (!model.logits) return std::nullopt;
  PipelineShape shape = target.pipeline();
  shape.micro_batches = 1;
  return PlannedPass(
      plan_forward(model.logits, target, train.model(), PlannedModel::Pass::generate),
      forward_program(target, shape));
}

std::optional<PlannedOutputs> plan_outputs(const Model& model, const PlanTarget& target,
                                           const PlannedPass& train) {
  if (!model.result) return std::nullopt;
  return PlannedOutputs(model.result, target, train);
}

/// Numbers that sizes of workspaces are computed from. Traits may be written by hand.
const DeviceTraits& checked(const DeviceTraits& device) {
  if (device.kind == DeviceKind::cuda) {
    gpu_traits(device.capability, device.multiprocessors, device.shared_bytes);
  } else {
    require(device.threads >= 1, "a CPU device has at least one thread, got ", device.threads);
    require(device.instruction_set != InstructionSet::best,
            "DeviceTraits::instruction_set names one instruction set, not 'best': use "
            "cpu_traits()");
  }
  return device;
}

}  // namespace

PlannedTraining::PlannedTraining(const Model& model, const TrainingSpec& spec_, int rank_,
                                 const DeviceTraits& device_, PlanCache* cache, Passes planned)
    : spec(spec_),
      rank(rank_),
      device(checked(device_)),
      train(plan_train(model, {spec_, rank_, device, cache})),
      evaluate(plan_evaluate(model, {spec_, rank_, device, cache}, train, planned)),
      generate(plan_generation(model, {spec_, rank_, device, cache}, train)),
      outputs(plan_outputs(model, {spec_, rank_, device, cache}, train)),
      flat(*train.model().graph, train.model().cut, train.model().pointers(),
           flat_options(spec_, rank_)),
      train_inputs(train.model(), {spec_, rank_, device, cache}),
      evaluate_inputs(evaluate.model().chunks.empty() ? train.model() : evaluate.model(),
                      {spec_, rank_, device, cache}),
      product_bytes(gemm_stream_bytes(device)) {}

std::vector<const PlannedPass*> PlannedTraining::passes() const {
  std::vector<const PlannedPass*> all;
  if (spec.trains) all.push_back(&train);
  all.push_back(&evaluate);
  if (generate) all.push_back(&*generate);
  if (outputs) all.push_back(&outputs->pass);
  return all;
}

MemoryNeed PlannedTraining::memory_need() const {
  MemoryNeed need;
  need.parameters = flat.parameter_bytes();
  if (flat.has_copy()) need.masters = flat.master_bytes();
  need.gradients = flat.gradient_bytes();
  if (spec.trains) need.optimizer = Optimizer::state_bytes(flat, spec.optimizer);
  for (const PlannedPass* pass : passes()) {
    need.activations = std::max(need.activations, pass->bytes());
    need.constants += pass->constant_bytes();
  }
  if (spec.check_replicas) need.checks += ReplicaHashes::bytes(flat);
  if (spec.verify_steps) need.checks += StepHashes::bytes(flat);
  need.inputs = (spec.trains ? train_inputs.bytes() : 0) + evaluate_inputs.bytes();
  if (outputs) {
    need.inputs += outputs->inputs.bytes();
    need.outputs = outputs->bytes();
  }
  need.products = product_bytes;
  return need;
}

std::string PlannedTraining::describe() const {
  std::string text;
  for (const Plan& plan : train.model().chunks) text += plan.describe();
  text += fmt::format("slots of rank {}:", rank);
  for (const int slots : train.program().slots) text += fmt::format(" {}", slots);
  return text + '\n' + flat.describe();
}

}  // namespace trireme
