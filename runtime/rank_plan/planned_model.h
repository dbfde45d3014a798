// PlannedModel: a model traced, cut and planned for one rank: everything known before memory
// exists.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/graph/model.h"
#include "trireme/rank_plan/training_spec.h"

#include "runtime/graph/compile/plan.h"
#include "runtime/optim/flat_parameters.h"

namespace trireme {

class PlanCache;

/// The rank that is planned, and the device that it will have.
struct PlanTarget {
  const TrainingSpec& spec;
  int rank;
  const DeviceTraits& device;
  PlanCache* cache = nullptr;  // holds what is planned already; null: all is made

  int coordinate(Role role) const { return spec.mesh.coordinate(rank, role); }
  /// Returns the shape of this rank's pipeline.
  PipelineShape pipeline() const { return spec.pipeline(coordinate(Role::batch)); }
};

struct PlannedModel {
  enum class Pass { train, evaluate, generate, outputs };

  std::shared_ptr<Graph> graph;      // not changed once the model is cut
  Values results;                    // the result, and behind it the metrics
  std::vector<std::string> metrics;  // their names
  StageCut cut;
  std::optional<PlanBasis> basis;  // made from these once the model is cut
  std::vector<int> kinds;          // per stage: stage_kinds(), where a PlanCache plans by them
  /// Chunk c of this rank is PipelineShape::virtual_stage(pipeline rank, c).
  std::vector<Plan> chunks;

  std::vector<const Plan*> pointers() const;
  Index scratch_bytes() const;  // chunks run one after the other: they share it
  /// FLOPs of one micro-batch on this rank.
  double flops() const;
};

/// A result of a forward-only model as it is read: packed.
Value packed_copy(const Value& result);

/// The training model. `backward`: of each chunk, split where the schedule runs it in two halves;
/// empty: whole. Throws: Error of the trace (which names op and shapes), or when there are too few
/// blocks to cut.
PlannedModel plan_training(const Forward& trace, const PlanTarget& target,
                           const std::vector<PlanOptions::Backward>& backward = {});
/// Another model over the same blocks and parameters, forward only, cut where `training` is, so
/// that every parameter is held where it is needed. Its result is on the last stage.
PlannedModel plan_forward(const Forward& trace, const PlanTarget& target,
                          const PlannedModel& training, PlannedModel::Pass pass);
/// Plans the model with the metrics that it registers. An empty `trace`: that of the graph of
/// `training` itself, which is not traced again.
PlannedModel plan_evaluation(const Forward& trace, const PlanTarget& target,
                             const PlannedModel& training);

/// Throws: Error when TrainingSpec::optimizer_shares do not fit the mesh or the update.
void check_optimizer_shares(const TrainingSpec& spec);

/// Returns how the parameters of such plans lie in memory. Throws: as check_optimizer_shares().
FlatOptions flat_options(const TrainingSpec& spec, int rank);

/// The largest instances of the plans of a rank, one per line, for messages about memory.
std::string largest_tensors(const PlannedModel& model, int count);

}  // namespace trireme
