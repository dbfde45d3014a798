#include "runtime/planner/unequal/block_costs.h"

#include "runtime/planner/step_time.h"

namespace trireme::planner {
namespace {

std::unique_ptr<LayoutPlanner> planner_of(TransformerConfig config, Index layers,
                                          const DeviceTraits& device) {
  config.num_layers = layers;
  return std::make_unique<LayoutPlanner>(transformer_models(config), device);
}

/// The same model on a mesh of its tensor axis, and as many data ranks, for one micro-batch.
Candidate one_micro_batch(const TrainingTask& task, Layout layout, int data) {
  layout.pipeline = 1;
  layout.data = data;
  layout.sharded = data > 1;
  Candidate candidate = task.candidate(layout);
  candidate.spec.global_batch_size = data * layout.micro_batch;
  return candidate;
}

ByBlocks split(double one, double two) { return {one - (two - one), two - one}; }

double compute_seconds(const StepTime& time) {
  return time.products + time.attention + time.memory_bound + time.tensor_traffic + time.host;
}

double slot_bytes(const PlannedLayout& planned) {
  return static_cast<double>(planned.stages.front()->train.slot_stride(0));
}

double state_bytes(const PlannedLayout& planned) {
  const MemoryNeed& need = planned.tightest().need;
  return static_cast<double>(need.parameters + need.gradients + need.optimizer);
}

}  // namespace

BlockCosts::BlockCosts(const TrainingTask& task, const Profile& profile, const Network& network)
    : task_(task),
      profile_(profile),
      network_(network),
      one_block_(planner_of(task.model(), 1, profile.device)),
      two_blocks_(planner_of(task.model(), 2, profile.device)) {}

PassCosts BlockCosts::measure(const Layout& layout) {
  const Candidate candidate = one_micro_batch(task_, layout, 1);
  const PlannedLayout one = one_block_->plan(candidate), two = two_blocks_->plan(candidate);
  const auto seconds = [&](const PlannedLayout& planned) {
    return compute_seconds(step_time(planned, profile_, network_));
  };
  return {split(seconds(one), seconds(two)), split(slot_bytes(one), slot_bytes(two))};
}

const PassCosts& BlockCosts::pass(const Layout& layout) {
  const Key key{layout.tensor, layout.micro_batch, layout.recompute, layout.sequence_parallel,
                layout.head_chunks};
  const auto known = pass_.find(key);
  return known != pass_.end() ? known->second : pass_.emplace(key, measure(layout)).first->second;
}

const HeldBytes& BlockCosts::held(int tensor) {
  const auto known = held_.find(tensor);
  if (known != held_.end()) return known->second;
  Layout plain;  // the state is that of any micro-batch
  plain.tensor = tensor;
  plain.recompute = RecomputeGranularity::full;
  const auto state = [&](LayoutPlanner& planner, int data) {
    return state_bytes(planner.plan(one_micro_batch(task_, plain, data)));
  };
  const ByBlocks whole = split(state(*one_block_, 1), state(*two_blocks_, 1));
  const ByBlocks halved = split(state(*one_block_, 2), state(*two_blocks_, 2));
  // Of d data ranks each has kept + shared / d; two of them were asked.
  HeldBytes held;
  held.shared = {2 * (whole.ends - halved.ends), 2 * (whole.block - halved.block)};
  held.kept = {whole.ends - held.shared.ends, whole.block - held.shared.block};
  return held_.emplace(tensor, held).first->second;
}

}  // namespace trireme::planner
