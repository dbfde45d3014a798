// PlanCache: what ranks of different layouts of one model share, made once: traces, plans of
// stages, and pipeline programs. Plans of the same ranks without it are equal, only slower.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "trireme/core/function_ref.h"

#include "runtime/pipeline/program.h"
#include "runtime/plan/planned_model.h"

namespace trireme {

/// For one Model and its micro-batch, one type of device, and one TrainingSpec::own_schedule,
/// frozen and trains.
class PlanCache {
 public:
  using Programs = std::shared_ptr<const std::vector<StageProgram>>;

  /// `make`: traced. For passes that add nothing to the graph once it is traced.
  PlannedModel trace(PlannedModel::Pass pass, const PlanTarget& target,
                     FunctionRef<PlannedModel()> make);
  /// `make`: traced and cut, without chunks.
  PlannedModel model(PlannedModel::Pass pass, const PlanTarget& target,
                     FunctionRef<PlannedModel()> make);
  /// Of a virtual stage of that model.
  Plan plan(PlannedModel::Pass pass, const PlanTarget& target, int stage, bool split,
            FunctionRef<Plan()> make);
  /// Of a training step, or of a forward-only pass: all stages.
  Programs train_programs(const TrainingSpec& spec, const PipelineShape& shape);
  Programs forward_programs(const PipelineShape& shape);
  /// Plans of stages that it holds, which take most of its memory.
  std::size_t plans() const { return plans_.size(); }

 private:
  using TraceKey = std::tuple<PlannedModel::Pass, int, int, DType>;
  using ShapeKey = std::tuple<int, int, Index, Route>;
  /// All that a trace and its cut depend on besides the model and the device.
  using ModelKey =
      std::tuple<PlannedModel::Pass, int, int, DType, bool, int, int, Route, std::vector<double>>;
  static ShapeKey key_of(const PipelineShape& shape);
  static ModelKey key_of(PlannedModel::Pass pass, const PlanTarget& target);

  std::map<TraceKey, PlannedModel> traces_;
  std::map<ModelKey, PlannedModel> models_;
  std::map<std::tuple<ModelKey, int, bool>, Plan> plans_;
  std::map<std::tuple<bool, ScheduleKind, ShapeKey>, Programs> train_programs_;
  std::map<ShapeKey, Programs> forward_programs_;
};

/// Throws: Error that says so where the schedule is the program's own.
std::vector<StageProgram> train_programs(const TrainingSpec& spec, const PipelineShape& shape);

}  // namespace trireme
