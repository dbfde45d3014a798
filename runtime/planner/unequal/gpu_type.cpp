#include "runtime/planner/unequal/gpu_type.h"

#include <algorithm>

namespace trireme::planner {

GpuType::GpuType(const TrainingTask& task, const GpuGroup& group, double margin)
    : task_(task),
      group_(group),
      limit_(static_cast<Index>((1 - margin) * static_cast<double>(group.profile.memory))),
      costs_(std::make_unique<BlockCosts>(task, group.profile, group.network)),
      planner_(std::make_unique<LayoutPlanner>(transformer_models(task.model()),
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
  return collective_time({CollectiveWork::Kind::all_gather, 1, bytes}, {layout.data, layout.tensor},
                         group_.profile, group_.network);
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

}  // namespace trireme::planner
