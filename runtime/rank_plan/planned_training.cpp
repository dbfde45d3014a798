#include "runtime/rank_plan/planned_training.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "trireme/kernels/stream_bytes.h"

#include "runtime/core/at.h"
#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"
#include "runtime/graph/constants.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/replica_hashes.h"
#include "runtime/optim/step_hashes.h"
#include "runtime/rank_plan/plan_cache.h"
#include "runtime/rank_plan/reduction_order.h"

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

Index MemoryNeed::aligned(Index bytes) {
  constexpr Index alignment = 4096;
  return round_up(bytes, alignment);
}

Index MemoryNeed::arena() const {
  return aligned(parameters) + aligned(gradients) + aligned(optimizer) + aligned(activations) +
         aligned(constants) + aligned(checks);
}

std::string MemoryNeed::describe() const {
  std::string text = fmt::format(
      "parameters {}, gradients {}, optimizer {}, activations {}, data {}", show_bytes(parameters),
      show_bytes(gradients), show_bytes(optimizer), show_bytes(activations), show_bytes(inputs));
  if (outputs > 0) text += ", outputs " + show_bytes(outputs);
  if (products > 0) text += ", products " + show_bytes(products);
  if (constants > 0) text += ", constants " + show_bytes(constants);
  if (checks > 0) text += ", checks " + show_bytes(checks);
  if (checkpoint > 0) text += ", checkpoint " + show_bytes(checkpoint);
  if (snapshots > 0) text += ", snapshots " + show_bytes(snapshots);
  if (loading > 0) text += ", loading " + show_bytes(loading);
  return text + ", libraries about " + show_bytes(libraries);
}

namespace {

constexpr Index alignment = 4096;

/// Shares the ownership of all of them.
std::shared_ptr<const StageProgram> one_of(const ProgramCache::Programs& programs, int stage) {
  return {programs, &programs->at(static_cast<std::size_t>(stage))};
}

}  // namespace

// A rank that trains keeps its own program only: those of all stages may be large.

std::shared_ptr<const StageProgram> train_program(const PlanTarget& target) {
  const PipelineShape shape = target.pipeline();
  const int stage = target.coordinate(Role::stage);
  if (target.cache != nullptr)
    return one_of(target.cache->programs().train(target.spec, shape), stage);
  std::vector<StageProgram> programs = train_programs(target.spec, shape);
  return std::make_shared<const StageProgram>(
      std::move(programs.at(static_cast<std::size_t>(stage))));
}

std::shared_ptr<const StageProgram> forward_program(const PlanTarget& target,
                                                    const PipelineShape& shape) {
  const int stage = target.coordinate(Role::stage);
  if (target.cache != nullptr) return one_of(target.cache->programs().forward(shape), stage);
  return std::make_shared<const StageProgram>(make_forward_program(shape, stage));
}

PlannedPass::PlannedPass(PlannedModel model, std::shared_ptr<const StageProgram> program)
    : model_(std::move(model)), program_(std::move(program)) {
  constexpr Index most_bytes = Index{1} << 60;
  const auto chunks = static_cast<Index>(model_.chunks.size());
  for (std::size_t c = 0; c < model_.chunks.size(); ++c)
    require(program_->slots[c] <= most_bytes / chunks / std::max<Index>(1, slot_stride(c)),
            "the schedule keeps ", program_->slots[c], " micro-batches at a time, of ",
            show_bytes(slot_stride(c)),
            " each: more than any memory; a smaller --micro-batch-size or --global-batch-size");
}

PlannedPass PlannedPass::without_chunks() const {
  PlannedPass same = *this;
  same.model_.chunks.clear();
  return same;
}

Index PlannedPass::slot_stride(std::size_t chunk) const {
  return round_up(model_.chunks[chunk].bytes().slot, alignment);
}

Index PlannedPass::constant_bytes() const {
  return round_up(trireme::constant_bytes(*model_.graph), alignment);
}

Index PlannedPass::slot_bytes(const StageProgram& program) const {
  Index sum = 0;
  for (std::size_t c = 0; c < model_.chunks.size(); ++c) sum += program.slots[c] * slot_stride(c);
  return sum;
}

namespace {

constexpr Index input_alignment = 64;

const ValueInfo& input_info(const Graph& graph, std::size_t position) {
  return graph.values()[static_cast<std::size_t>(graph.inputs()[position])];
}

/// The input of the source's graph that is called as this one and looks alike.
std::size_t row_of_input(const std::vector<PlannedInputs::Row>& rows, const Graph& source,
                         const ValueInfo& input) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name != input.name) continue;
    const Spec& known = input_info(source, i).spec;
    require(known.shape == input.spec.shape && known.dtype == input.spec.dtype, "input '",
            input.name, "' of Model::result is ", input.spec, ", and in Model::loss ", known,
            ": declare it alike in both");
    return i;
  }
  throw Error(str("input '", input.name,
                  "' of Model::result is no input of Model::loss, whose inputs are what a "
                  "DataSource fills"));
}

}  // namespace

Shape without_first(const Shape& shape) {
  Shape rest;
  for (int d = 1; d < shape.dims(); ++d) rest.push_back(shape[d]);
  return rest;
}

Index PlannedInputs::Input::bytes() const { return round_up(batch.bytes(), input_alignment); }

PlannedInputs::PlannedInputs(const PlannedModel& model, const PlanTarget& target,
                             const Graph& source)
    : micro_batch_size(target.spec.micro_batch_size),
      micro_batches(target.pipeline().micro_batches),
      first_row(target.spec.micro_batches(target.coordinate(Role::batch)).first *
                micro_batch_size) {
  for (std::size_t i = 0; i < source.inputs().size(); ++i) {
    const ValueInfo& info = input_info(source, i);
    rows.push_back(
        {info.name, Tensor(nullptr, without_first(info.spec.shape),
                           info.spec.dtype == DType::bf16 ? DType::f32 : info.spec.dtype)});
  }
  std::set<int> used;
  for (const Plan& plan : model.chunks) used.insert(plan.inputs().begin(), plan.inputs().end());
  for (std::size_t i = 0; i < model.graph->inputs().size(); ++i) {
    const ValueInfo& info = input_info(*model.graph, i);
    inputs.push_back({&source == model.graph.get() ? i : row_of_input(rows, source, info),
                      used.count(static_cast<int>(i)) > 0,
                      Tensor(nullptr, info.spec.shape, info.spec.dtype)});
  }
}

Index PlannedInputs::bytes() const {
  Index sum = 0;
  for (const Input& input : inputs)
    if (input.used) sum += input.bytes() * micro_batches;
  return sum;
}

void check_inputs(const Graph& graph, Index micro_batch_size) {
  std::vector<bool> used(graph.values().size());
  for (const Node& node : graph.nodes())
    for (const int input : node.inputs) used[at(input)] = true;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueInfo& input = input_info(graph, i);
    require(input.spec.shape.dims() >= 1 && input.spec.shape[0] == micro_batch_size, "input '",
            input.name, "' has shape ", input.spec.shape,
            ", but its dim 0 is the sample and has to be --micro-batch-size ", micro_batch_size);
  }
  for (const int input : graph.inputs())
    require(used[at(input)], "input '", graph.values()[at(input)].name,
            "' is used by no op: use it, or leave it out");
}

namespace {

void check_result(const Value& result, Index micro_batch_size) {
  const Spec& spec = result.spec();
  require(is_floating(spec.dtype), "Model::result is ", spec, ": it has to be floating-point");
  require(spec.shape.dims() >= 1 && spec.shape[0] == micro_batch_size, "Model::result is ", spec,
          ", but its dim 0 is the sample and has to be --micro-batch-size ", micro_batch_size,
          ": reshape() it");
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
  return target.coordinate(Role::tensor) == 0 &&
         target.coordinate(Role::stage) == target.pipeline().last_stage();
}

/// Of the data rank that runs most.
Index most_samples(const TrainingSpec& spec) {
  Index most = 0;
  for (int data = 0; data < spec.mesh.size(Role::batch); ++data)
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
