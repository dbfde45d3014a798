// The screen of `trireme plan`.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/core/json/json.h"
#include "runtime/layouts/search/answer.h"

namespace trireme::layouts {

/// What is planned, on what, and how well its times are known. `tried`: layouts have run.
std::string heading(const TrainingTask& task, const Question& question, bool tried = false);
/// Describes how well times on the cluster are known. `tried`: layouts have run.
std::string describe_grade(const Cluster& cluster, bool tried = false);
/// What the figures of the chosen layout mean, and what is not known of them.
std::string notes(const TrainingTask& task, const Cluster& cluster, const Figures& figures);
/// Why no job of this program runs on the cluster; "" where jobs may run.
std::string why_not_run(const Cluster& cluster);
/// What a job needs that the command line lacks, as a comment in the shell; "" where it has all.
std::string comment_of_command(const TrainingTask& task, const Question& question);
/// Returns, where layouts fit, the table and what follows from it; else what is least needed, and
/// what would fit. With Question::explain one layout beside the chosen one.
std::string report(const TrainingTask& task, const Question& question, const Answer& answer);

/// Returns only the heading and the table; layouts fit.
std::string short_report(const TrainingTask& task, const Question& question, const Answer& answer);
/// Returns the line that says so where no layout fits, or none is legal.
std::string why_none_fits(const TrainingTask& task, const Question& question, const Answer& answer);

/// The parts of a step with their seconds, largest first; those of 0 are left out.
std::vector<std::pair<std::string, double>> parts_of(const cost::StepTime& time);
/// The classes of the memory of a rank with their bytes, in a fixed order; those of 0 are left out.
std::vector<std::pair<std::string, Index>> classes_of(const MemoryNeed& need);

// The answer of `trireme plan --json`.

/// One object: version, profile and its grade, the best layouts and all candidates with every part
/// of time, bytes by class and rank, and what became of each as a code (Verdict). `explained` and
/// `command` where there are some. docs/how-to/plan.md explains the members.
Json to_json(const TrainingTask& task, const Question& question, const Answer& answer);

/// One layout: its times, figures and bytes.
Json to_json(const TrainingTask& task, const Question& question, const Evaluated& made);
Json to_json(const Layout& layout);
Json to_json(const Cluster& cluster);

}  // namespace trireme::layouts
