// The screen of `trireme plan` without a model, and its JSON.
//
// Not installed; modules above may include it.
#pragma once

#include "runtime/core/json/json.h"
#include "runtime/planner/search/preset_plans.h"

namespace trireme::planner {

/// A table of the presets that fit, with the time and, with prices, the cost of their training, and
/// what the others need at least.
std::string report(const Question& common, const std::vector<PresetPlan>& plans);
/// An object for each preset; docs/how-to/plan.md explains the members.
Json to_json(const Question& common, const std::vector<PresetPlan>& plans);

}  // namespace trireme::planner
