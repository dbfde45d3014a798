// The screen of `trireme plan` without a model, and its JSON.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/json/json.h"
#include "runtime/layouts/search/answer.h"

namespace trireme::layouts {

/// PresetPlan: the fastest layout of a preset on a cluster, for those who ask what they can train.
struct PresetPlan {
  std::string name;
  std::unique_ptr<TrainingTask> task;
  Question question;  // with the tokens that count for this model
  std::optional<Evaluated> best;
  std::optional<Evaluated> least_need;  // where none fits

  bool fits() const { return best.has_value(); }
};

/// Returns a plan for each preset. `common` has the cluster, which has one group, the aim, and
/// Question::tokens, or 0: so many for each parameter as Hoffmann et al. 2022 (arXiv:2203.15556)
/// found best.
/// `batch`: samples of a step, or 0: about half a million tokens. `length`: tokens of a sample, or
/// 0: those of the preset. Presets that cannot be trained so are left out.
std::vector<PresetPlan> plan_presets(const Question& common, Index batch, Index length);

inline constexpr Index usual_tokens_per_parameter = 20, usual_tokens_per_step = Index{1} << 19;

/// A table of the presets that fit, with the time and, with prices, the cost of their training, and
/// what the others need at least.
std::string report(const Question& common, const std::vector<PresetPlan>& plans);
/// An object for each preset; docs/how-to/plan.md explains the members.
Json to_json(const Question& common, const std::vector<PresetPlan>& plans);

}  // namespace trireme::layouts
