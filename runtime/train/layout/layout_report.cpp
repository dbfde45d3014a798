#include "runtime/train/layout/layout_report.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "trireme/rank_plan/training_spec.h"

#include "runtime/core/show_bytes.h"
#include "runtime/rank_plan/plan_cache.h"
#include "runtime/rank_plan/rank_memory.h"
#include "runtime/train/memory_check.h"

namespace trireme::train {
namespace {

/// 1.5e9 -> "1.50 G": for floating-point operations.
std::string show_flops(double flops) {
  constexpr std::array<const char*, 6> units = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < units.size(); ++unit) flops /= 1000;
  return fmt::format("{:.{}f}{}", flops, unit == 0 ? 0 : 2, units[unit]);
}

/// What a stage does for one micro-batch.
struct StageSums {
  double forward = 0, recompute = 0, backward = 0, bytes = 0;
  Index sent = 0;  // to the next stage, and gradients to the previous one
};

StageSums sums_of(const PlannedTraining& plan) {
  StageSums sums;
  for (const Plan& chunk : plan.passes().front()->model().chunks) {
    for (const StepWork& work : chunk.work()) {
      sums.bytes += work.bytes;
      if (work.phase == StepWork::Phase::forward) sums.forward += work.flops;
      if (work.phase == StepWork::Phase::recompute) sums.recompute += work.flops;
      if (work.phase == StepWork::Phase::backward) sums.backward += work.flops;
    }
    sums.sent += chunk.send_values().bytes + chunk.send_gradients().bytes;
  }
  return sums;
}

std::string stage_line(const PlannedTraining& plan, const MemoryNeed& need) {
  const StageSums sums = sums_of(plan);
  std::string slots;
  for (const int count : plan.passes().front()->program().slots)
    slots += fmt::format("{}{}", slots.empty() ? "" : "+", count);
  return fmt::format("{:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>7}  {:>10}  {:>10}\n",
                     plan.coordinate(Role::stage), show_flops(sums.forward),
                     show_flops(sums.recompute), show_flops(sums.backward),
                     show_bytes(static_cast<Index>(sums.bytes)), show_bytes(sums.sent), slots,
                     show_bytes(need.device()), show_bytes(need.host()));
}

/// The first and the last coordinate along an axis: those between have no more.
std::set<int> ends(const MeshShape& shape, Role role) { return {0, shape.size(role) - 1}; }

/// "4", or where data ranks have unequal shares "6,4,2".
std::string micro_batches(const Context& context) {
  const Options& options = context.options();
  DataShares counts;
  for (std::size_t data = 0; data < options.data_parallel_shares.size(); ++data)
    counts.push_back(options.micro_batches(context.data_size(), static_cast<Index>(data)));
  return counts.empty() ? str(context.micro_batches()) : trireme::describe(counts);
}

std::string heading(const Context& context) {
  const Options& options = context.options();
  const DataShares shares = training_spec(options, context.mesh().shape()).optimizer_shares;
  return fmt::format("plan of {}; {} micro-batches a step, schedule {}{}; for a {}\n",
                     context.mesh().shape().describe(), micro_batches(context),
                     options.own_schedule ? "of the program" : name(options.schedule),
                     shares.empty() ? "" : ", optimizer shares " + trireme::describe(shares),
                     planned_device(context).describe());
}

}  // namespace

LayoutChecked check_layout(const Context& context, const Model& model) {
  const MeshShape& shape = context.mesh().shape();
  const TrainingSpec spec = training_spec(context.options(), shape);
  const DeviceTraits device = planned_device(context);
  const bool describes = context.options().plan_only;
  PlanCache shared;  // what these ranks have in common
  const std::set<int> data_ranks = distinct_data_ranks(spec);
  LayoutChecked found;
  LayoutRank tightest;
  std::string lines;
  for (int stage = 0; stage < shape.size(Role::stage); ++stage)
    for (const int data : data_ranks)
      for (const int tensor : ends(shape, Role::tensor)) {
        const int rank =
            shape.rank_at({{Role::stage, stage}, {Role::batch, data}, {Role::tensor, tensor}});
        const PlannedTraining plan(model, spec, rank, device, &shared);
        const MemoryNeed need = memory_need(context, plan);
        if (describes && data == 0 && tensor == 0) lines += stage_line(plan, need);
        if (need.device() > tightest.need.device()) tightest = {rank, stage, need};
        found.rank_bytes = std::max(found.rank_bytes, need.total());
        found.state_bytes =
            std::max(found.state_bytes, need.parameters + need.gradients + need.optimizer);
      }
  if (describes)
    found.description =
        heading(context) +
        fmt::format("{:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>7}  {:>10}  {:>10}\n",
                    "stage", "forward", "recomputed", "backward", "traffic", "sent", "slots",
                    "device", "host") +
        lines +
        "forward, recomputed, backward: FLOPs of a micro-batch; traffic: bytes that its ops read "
        "and write; sent: to other stages\n" +
        fmt::format("tightest rank: {} (stage {}): {} of its device, {} of the host: {}\n",
                    tightest.rank, tightest.stage, show_bytes(tightest.need.device()),
                    show_bytes(tightest.need.host()), tightest.need.describe());
  return found;
}

}  // namespace trireme::train
