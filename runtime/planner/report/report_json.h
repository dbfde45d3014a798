// The answer of `trireme plan --json`.
//
// Not installed; modules above may include it.
#pragma once

#include "runtime/core/json/json.h"
#include "runtime/planner/search/answer.h"

namespace trireme::planner {

/// One object: version, profile and its grade, the best layouts and all candidates with every part
/// of time, bytes by class and rank, and what became of each as a code (Verdict). `explained` and
/// `command` where there are some. docs/how-to/plan.md explains the members.
Json to_json(const TrainingTask& task, const Question& question, const Answer& answer);

/// One layout: its times, figures and bytes.
Json to_json(const TrainingTask& task, const Question& question, const Evaluated& made);
Json to_json(const Layout& layout);
Json to_json(const Cluster& cluster);

}  // namespace trireme::planner
