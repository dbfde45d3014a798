#include "runtime/plan/planned_outputs.h"

#include <algorithm>

namespace trireme {
namespace {

void check_result(const Value& result, Index micro_batch_size) {
  const Spec& spec = result.spec();
  require(is_floating(spec.dtype), "Model::result is ", spec, ": it has to be floating-point");
  require(spec.shape.dims() >= 1 && spec.shape[0] == micro_batch_size, "Model::result is ", spec,
          ", but its dim 0 is the sample and has to be TrainingSpec::micro_batch_size ",
          micro_batch_size, ": reshape() it");
  require(result.graph().tensor_size() == 1 || result.placement() == Placement::replicated ||
              result.placement() == Placement::partial_gradient,
          "Model::result is ", result.placement(),
          " on the tensor axis: gather_columns(), gather_rows() or leave() makes it replicated");
}

PlannedPass plan_pass(const Forward& result, const PlanTarget& target, const PlannedPass& train) {
  const auto trace = [&](Graph& g) {
    const Value value = result(g);
    if (!value) return value;  // refused as that of any model
    check_result(value, target.spec.micro_batch_size);
    return packed_copy(value);
  };
  return {plan_forward(trace, target, train.model(), PlannedModel::Pass::outputs),
          forward_program(target, target.pipeline())};
}

bool makes_results(const PlanTarget& target) {
  return target.coordinate(Axis::tensor) == 0 &&
         target.coordinate(Axis::pipeline) == target.pipeline().last_stage();
}

/// Of the data rank that runs most.
Index most_samples(const TrainingSpec& spec) {
  Index most = 0;
  for (int data = 0; data < spec.mesh.size(Axis::data); ++data)
    most = std::max(most, spec.micro_batches(data).count * spec.micro_batch_size);
  return most;
}

Tensor without_memory(const Spec& spec) { return {nullptr, spec.shape, spec.dtype}; }

}  // namespace

PlannedOutputs::PlannedOutputs(const Forward& function, const PlanTarget& target,
                               const PlannedPass& train)
    : pass(plan_pass(function, target, train)),
      inputs(pass.model(), target, *train.model().graph),
      result(without_memory(pass.model().results.front().spec())),
      sample(nullptr, without_first(result.shape), DType::f32),
      samples(inputs.micro_batches * inputs.micro_batch_size),
      makes(makes_results(target)),
      kept(target.rank == 0 ? most_samples(target.spec)
           : makes          ? samples
                            : 0) {}

Index PlannedOutputs::result_bytes() const {
  return makes ? inputs.micro_batches * result.bytes() : 0;
}

}  // namespace trireme
