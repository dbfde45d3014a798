#include "runtime/layouts/unequal/gpu_type.h"

#include <algorithm>

#include "runtime/cost/step_time.h"

namespace trireme::layouts {

GpuType::GpuType(const TrainingTask& task, const GpuGroup& group, double margin)
    : task_(task),
      group_(group),
      limit_(static_cast<Index>((1 - margin) * static_cast<double>(group.profile.memory))),
      costs_(std::make_unique<BlockCosts>(task, group.profile, group.network)),
      planner_(std::make_unique<cost::LayoutPlanner>(cost::transformer_models(task.model()),
                                                     group.profile.device)) {}

Workers GpuType::stage(const Layout& layout, const StagePlace& place) {
  const ByBlocks& seconds = costs_->pass(layout).seconds;
  // The embedding takes next to nothing.
  const double head = place.is_last() ? std::max(0.0, seconds.ends) : 0;
  return {1, head, seconds.block, most_blocks(layout, place)};
}

double GpuType::data_seconds(const Layout& layout) {
  if (layout.data == 1 || !layout.sharded) return 0;
  const auto parameters = static_cast<double>(task_.model().parameter_count());
  const double bytes = parameters / layout.tensor / layout.pipeline *
                       static_cast<double>(size_bytes(task_.options().compute()));
  return cost::collective_time({CollectiveWork::Kind::all_gather, 1, bytes},
                               {layout.data, layout.tensor}, group_.profile, group_.network);
}

GpuType::StageBytes GpuType::bytes_of(const Layout& layout, const StagePlace& place) {
  /// Estimates are rarely above the plan, and then by little.
  constexpr double certainty = 0.98;
  const HeldBytes& state = costs_->held(layout.tensor);
  const ByBlocks& slot = costs_->pass(layout).slot;
  const double slots = place.stages - place.stage;
  // Each end of the model has half of what both need.
  const double ends = 0.5 * ((place.stage == 0) + place.is_last());
  const double head = place.is_last() ? std::max(0.0, slot.ends) : 0;
  const int axes = (layout.tensor > 1) + (place.stages > 1) + (layout.data > 1);
  const auto fixed =
      static_cast<double>(group_.profile.context_bytes + axes * group_.profile.communicator_bytes);
  return {.kept = {ends * state.kept.ends + slots * head, state.kept.block + slots * slot.block},
          .shared = {ends * state.shared.ends, state.shared.block},
          .most = (static_cast<double>(limit_) - fixed) / certainty};
}

Index GpuType::most_blocks(const Layout& layout, const StagePlace& place) {
  const StageBytes bytes = bytes_of(layout, place);
  const double part = !layout.sharded ? 1 : place.updates ? 1.0 / layout.data : 0;
  const double blocks = (bytes.most - bytes.kept.ends - part * bytes.shared.ends) /
                        (bytes.kept.block + part * bytes.shared.block);
  return static_cast<Index>(std::clamp(blocks, 0.0, static_cast<double>(task_.model().num_layers)));
}

double GpuType::most_of_optimizer(const Layout& layout, const StagePlace& place, Index blocks) {
  const StageBytes bytes = bytes_of(layout, place);
  const auto count = static_cast<double>(blocks);
  const double part = (bytes.most - bytes.kept.ends - count * bytes.kept.block) /
                      (bytes.shared.ends + count * bytes.shared.block);
  return std::clamp(part, 0.0, 1.0);
}

std::vector<GpuType> gpu_types(const TrainingTask& task, const Cluster& cluster, double margin) {
  std::vector<GpuType> types;
  for (const GpuGroup& group : cluster.groups) types.emplace_back(task, group, margin);
  return types;
}

namespace {

std::unique_ptr<cost::LayoutPlanner> planner_of(TransformerConfig config, Index layers,
                                                const DeviceTraits& device) {
  config.num_layers = layers;
  return std::make_unique<cost::LayoutPlanner>(cost::transformer_models(config), device);
}

/// The same model on a mesh of its tensor axis, and as many data ranks, for one micro-batch.
cost::Candidate one_micro_batch(const TrainingTask& task, Layout layout, int data) {
  layout.pipeline = 1;
  layout.data = data;
  layout.sharded = data > 1;
  cost::Candidate candidate = task.candidate(layout);
  candidate.spec.global_batch_size = data * layout.micro_batch;
  return candidate;
}

ByBlocks split(double one, double two) { return {one - (two - one), two - one}; }

double compute_seconds(const cost::StepTime& time) {
  return time.products + time.attention + time.memory_bound + time.tensor_traffic + time.host;
}

double slot_bytes(const cost::PlannedLayout& planned) {
  return static_cast<double>(planned.stages.front()->train.slot_stride(0));
}

double state_bytes(const cost::PlannedLayout& planned) {
  const MemoryNeed& need = planned.tightest().need;
  return static_cast<double>(need.parameters + need.gradients + need.optimizer);
}

}  // namespace

BlockCosts::BlockCosts(const TrainingTask& task, const cost::Profile& profile,
                       const cost::Network& network)
    : task_(task),
      profile_(profile),
      network_(network),
      one_block_(planner_of(task.model(), 1, profile.device)),
      two_blocks_(planner_of(task.model(), 2, profile.device)) {}

PassCosts BlockCosts::measure(const Layout& layout) {
  const cost::Candidate candidate = one_micro_batch(task_, layout, 1);
  const cost::PlannedLayout one = one_block_->plan(candidate), two = two_blocks_->plan(candidate);
  const auto seconds = [&](const cost::PlannedLayout& planned) {
    return compute_seconds(cost::step_time(planned, profile_, network_));
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
  const auto state = [&](cost::LayoutPlanner& planner, int data) {
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

}  // namespace trireme::layouts
