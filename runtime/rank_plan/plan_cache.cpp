#include "runtime/rank_plan/plan_cache.h"

#include "runtime/core/at.h"
#include "runtime/graph/compile/alike.h"

namespace trireme {

ProgramCache::ShapeKey ProgramCache::key_of(const PipelineShape& shape) {
  return {shape.stages, shape.chunks, shape.micro_batches, shape.route};
}

PlanCache::ModelKey PlanCache::key_of(PlannedModel::Pass pass, const PlanTarget& target) {
  const TrainingSpec& spec = target.spec;
  const PipelineShape shape = target.pipeline();
  return {pass,
          target.coordinate(Role::tensor),
          spec.mesh.size(Role::tensor),
          spec.compute,
          spec.guard,
          shape.stages,
          shape.chunks,
          shape.route,
          spec.stage_speeds};
}

PlannedModel PlanCache::trace(PlannedModel::Pass pass, const PlanTarget& target,
                              FunctionRef<PlannedModel()> make) {
  const TraceKey key{pass, target.coordinate(Role::tensor), target.spec.mesh.size(Role::tensor),
                     target.spec.compute};
  const auto found = traces_.find(key);
  return found != traces_.end() ? found->second : traces_.emplace(key, make()).first->second;
}

PlannedModel PlanCache::model(PlannedModel::Pass pass, const PlanTarget& target,
                              FunctionRef<PlannedModel()> make) {
  const ModelKey key = key_of(pass, target);
  const auto found = models_.find(key);
  return found != models_.end() ? found->second : models_.emplace(key, make()).first->second;
}

std::vector<int> PlanCache::kinds(const PlannedModel& model, PlanOptions::Mode mode) {
  if (stages_ == Stages::own) return {};
  const std::pair key(static_cast<const Graph*>(model.graph.get()), mode);
  auto blocks = blocks_.find(key);
  if (blocks == blocks_.end())
    blocks = blocks_.emplace(key, block_kinds(*model.graph, model.results, mode)).first;
  return stage_kinds(*model.graph, model.cut, *model.basis, blocks->second);
}

Plan PlanCache::plan(PlannedModel::Pass pass, const PlanTarget& target, const PlannedModel& model,
                     int stage, bool split, FunctionRef<Plan(int stage)> make) {
  const int like = model.kinds.empty() ? stage : model.kinds[at(stage)];
  const auto key = std::tuple(key_of(pass, target), like, split);
  auto found = plans_.find(key);
  if (found == plans_.end()) found = plans_.emplace(key, make(like)).first;
  return like == stage ? found->second
                       : plan_like(found->second, stage, *model.graph, *model.basis);
}

ProgramCache::Programs ProgramCache::train(const TrainingSpec& spec, const PipelineShape& shape) {
  Programs& programs = train_[{static_cast<bool>(spec.own_schedule), spec.schedule, key_of(shape)}];
  if (!programs)
    programs = std::make_shared<const std::vector<StageProgram>>(train_programs(spec, shape));
  return programs;
}

ProgramCache::Programs ProgramCache::forward(const PipelineShape& shape) {
  Programs& programs = forward_[key_of(shape)];
  if (!programs)
    programs = std::make_shared<const std::vector<StageProgram>>(
        make_programs(forward_orders(shape), shape));
  return programs;
}

std::vector<StageProgram> train_programs(const TrainingSpec& spec, const PipelineShape& shape) {
  if (!spec.own_schedule) return make_programs(work_orders(spec.schedule, shape), shape);
  try {
    return make_programs(spec.own_schedule, shape);
  } catch (const std::exception& error) {
    const std::string text = error.what(), named = str(shape);
    throw Error(text.find(named) == std::string::npos ? str("own_schedule, for ", named, ": ", text)
                                                      : "own_schedule: " + text);
  }
}

}  // namespace trireme
