#include "runtime/plan/planned_pass.h"

#include <algorithm>

#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"
#include "runtime/graph/constants.h"
#include "runtime/plan/plan_cache.h"

namespace trireme {
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
  const int stage = target.coordinate(Axis::pipeline);
  if (target.cache != nullptr)
    return one_of(target.cache->programs().train(target.spec, shape), stage);
  std::vector<StageProgram> programs = train_programs(target.spec, shape);
  return std::make_shared<const StageProgram>(
      std::move(programs.at(static_cast<std::size_t>(stage))));
}

std::shared_ptr<const StageProgram> forward_program(const PlanTarget& target,
                                                    const PipelineShape& shape) {
  const int stage = target.coordinate(Axis::pipeline);
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
            " each: more than any memory; a smaller TrainingSpec::micro_batch_size or "
            "TrainingSpec::global_batch_size");
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

}  // namespace trireme
