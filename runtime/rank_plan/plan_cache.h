// PlanCache: what ranks of different layouts of one model share, made once: traces, plans of
// stages, and pipeline programs, which different models may share. Plans of the same ranks without
// it are equal, only slower, but for names where stages that are alike share plans.
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
#include "runtime/rank_plan/planned_model.h"

namespace trireme {

/// Caches programs for one TrainingSpec::own_schedule.
class ProgramCache {
 public:
  using Programs = std::shared_ptr<const std::vector<StageProgram>>;

  /// Return the programs of all stages of a training step, and of a forward-only pass.
  Programs train(const TrainingSpec& spec, const PipelineShape& shape);
  Programs forward(const PipelineShape& shape);

 private:
  using ShapeKey = std::tuple<int, int, Index, Route>;
  static ShapeKey key_of(const PipelineShape& shape);

  std::map<std::tuple<bool, ScheduleKind, ShapeKey>, Programs> train_;
  std::map<ShapeKey, Programs> forward_;
};

/// Caches plans for one Model and its micro-batch, one type of device, and one
/// TrainingSpec::own_schedule, groups and trains.
class PlanCache {
 public:
  using Programs = ProgramCache::Programs;
  /// own: each stage has a plan of its own. alike: stages that are alike have that of the first of
  /// them (plan_like()), which says what each needs and how long it takes. It is not run.
  enum class Stages { own, alike };

  /// `programs`: shared with others.
  explicit PlanCache(Stages stages = Stages::own,
                     std::shared_ptr<ProgramCache> programs = std::make_shared<ProgramCache>())
      : stages_(stages), programs_(std::move(programs)) {}
  /// `make`: traced. For passes that add nothing to the graph once it is traced.
  PlannedModel trace(PlannedModel::Pass pass, const PlanTarget& target,
                     FunctionRef<PlannedModel()> make);
  /// `make`: traced and cut, without chunks.
  PlannedModel model(PlannedModel::Pass pass, const PlanTarget& target,
                     FunctionRef<PlannedModel()> make);
  /// PlannedModel::kinds of a model that is cut.
  std::vector<int> kinds(const PlannedModel& model, PlanOptions::Mode mode);
  /// Returns the plan of a virtual stage of that model.
  Plan plan(PlannedModel::Pass pass, const PlanTarget& target, const PlannedModel& model, int stage,
            bool split, FunctionRef<Plan(int stage)> make);
  ProgramCache& programs() const { return *programs_; }
  /// Plans of stages that it holds, which take most of its memory.
  std::size_t plans() const { return plans_.size(); }

 private:
  using TraceKey = std::tuple<PlannedModel::Pass, int, int, DType>;
  /// All that a trace and its cut depend on besides the model and the device.
  using ModelKey =
      std::tuple<PlannedModel::Pass, int, int, DType, bool, int, int, Route, std::vector<double>>;
  static ModelKey key_of(PlannedModel::Pass pass, const PlanTarget& target);

  Stages stages_;
  std::map<TraceKey, PlannedModel> traces_;
  std::map<ModelKey, PlannedModel> models_;
  /// block_kinds(), by graph of those.
  std::map<std::pair<const Graph*, PlanOptions::Mode>, std::vector<int>> blocks_;
  std::map<std::tuple<ModelKey, int, bool>, Plan> plans_;
  std::shared_ptr<ProgramCache> programs_;
};

/// Throws: Error that says so where the schedule is the program's own.
std::vector<StageProgram> train_programs(const TrainingSpec& spec, const PipelineShape& shape);

}  // namespace trireme
