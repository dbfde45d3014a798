#include "runtime/train/bound_training.h"

#include "runtime/job/affinity.h"
#include "runtime/train/prepare.h"

namespace trireme::train {
namespace {

Arena allocate(const Context& context, const MemoryNeed& need) {
  const std::string planned = context.mesh().memory_description();
  Arena arena(need, context.mesh());
  if (context.mesh().memory_description() != planned)
    context.log().info("collectives: " + context.mesh().memory_description());
  return arena;
}

/// Passes share activations, and each has its constants.
PassMemory memory_of(const PlannedPass& pass, const PlannedTraining& plan, const Arena& arena) {
  std::byte* constants = arena.constants;
  for (const PlannedPass* before : plan.passes()) {
    if (before == &pass) break;
    constants += before->constant_bytes();
  }
  return {arena.activations, constants};
}

}  // namespace

Arena::Arena(const MemoryNeed& need, Mesh& mesh)
    : memory(mesh.allocate(need.arena())),
      parameters(memory.data()),
      gradients(parameters + MemoryNeed::aligned(need.parameters)),
      optimizer(gradients + MemoryNeed::aligned(need.gradients)),
      activations(optimizer + MemoryNeed::aligned(need.optimizer)),
      constants(activations + MemoryNeed::aligned(need.activations)),
      checks(constants + MemoryNeed::aligned(need.constants)) {}

BoundTraining::BoundTraining(const Context& context, const PlannedTraining& plan,
                             const TieGroups& ties, StepProfile* profile,
                             std::function<void()> between_ops, observe::StatusPage& page)
    : between_ops_(std::move(between_ops)),
      arena_(allocate(context, plan.memory_need())),
      flat(plan.flat, arena_.parameters, arena_.gradients),
      evaluate_inputs(plan.evaluate_inputs, context.device(), context.options().check_finite),
      evaluate(plan.evaluate, memory_of(plan.evaluate, plan, arena_), flat, context,
               {.between_ops = between_ops_, .page = page}) {
  std::vector<Pass*> passes;
  if (plan.spec.trains) {
    reducer.emplace(flat, context.mesh(), context.stream(), ties);
    optimizer.emplace(flat, context.mesh(), context.stream(), plan.spec.optimizer,
                      arena_.optimizer);
    train_inputs.emplace(plan.train_inputs, context.device(), context.options().check_finite);
    train.emplace(
        plan.train, memory_of(plan.train, plan, arena_), flat, context,
        Pass::Settings{
            .reducer = &*reducer, .between_ops = between_ops_, .page = page, .profile = profile});
    passes.push_back(&*train);
  }
  if (plan.spec.check_replicas && context.data_size() > 1)
    replica_hashes.emplace(flat, context.mesh(), context.stream(), arena_.checks);
  if (plan.spec.verify_steps)
    step_hashes.emplace(
        flat, context.stream(),
        arena_.checks + (plan.spec.check_replicas ? ReplicaHashes::bytes(plan.flat) : 0));
  const Pass::Settings forward_only{.between_ops = between_ops_, .page = page};
  if (plan.generate)
    generate.emplace(*plan.generate, memory_of(*plan.generate, plan, arena_), flat, context,
                     forward_only);
  if (plan.outputs) {
    const PlannedPass& pass = plan.outputs->pass;
    outputs.emplace(pass, memory_of(pass, plan, arena_), flat, context, forward_only);
    outputs_batch.emplace(*plan.outputs, context);
  }
  passes.push_back(&evaluate);
  if (generate) passes.push_back(&*generate);
  if (outputs) passes.push_back(&*outputs);
  prepare_passes(context, passes,
                 {{arena_.parameters, MemoryNeed::aligned(plan.memory_need().parameters)},
                  {arena_.activations, MemoryNeed::aligned(plan.memory_need().activations)}});
  flat.clear(context.stream());
}

void BoundTraining::draw_initial_values(const Context& context,
                                        const std::function<Index(const std::string&)>& from_row) {
  const auto seed = static_cast<std::uint64_t>(context.options().seed);
  if (context.device().kind() == DeviceKind::cpu) {
    flat.initialise(seed, context.stream(), context.stream().pool(), from_row);
  } else {  // a host that has a GPU to compute takes all of its cores for this
    ThreadPool cores(cores_of_this_process());
    flat.initialise(seed, context.stream(), cores, from_row);
  }
  context.log().debug(str("initial values are drawn with --seed ", seed));
}

}  // namespace trireme::train
