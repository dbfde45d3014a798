// PresetPlan: the fastest layout of a preset on a cluster, for those who ask what they can train.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/planner/search/answer.h"

namespace trireme::planner {

struct PresetPlan {
  std::string name;
  std::unique_ptr<TrainingTask> task;
  Question question;  // with the tokens that count for this model
  std::optional<Evaluated> best;
  std::optional<Evaluated> least_need;  // where none fits

  bool fits() const { return best.has_value(); }
};

/// Of all presets. `common` has the cluster, which has one group, the aim, and Question::tokens, or
/// 0: so many for each parameter as Hoffmann et al. 2022 (arXiv:2203.15556) found best.
/// `batch`: samples of a step, or 0: about half a million tokens. `length`: tokens of a sample, or
/// 0: those of the preset. Presets that cannot be trained so are left out.
std::vector<PresetPlan> plan_presets(const Question& common, Index batch, Index length);

inline constexpr Index usual_tokens_per_parameter = 20, usual_tokens_per_step = Index{1} << 19;

}  // namespace trireme::planner
