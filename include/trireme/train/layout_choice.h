// --plan auto: a job of transformers chooses the layout of its ranks, with the planner of
// `trireme plan`, before anything is allocated; and compares what was predicted with its own steps.
#pragma once

#include <string>

#include "trireme/job/run.h"
#include "trireme/options/gpt_options.h"
#include "trireme/train/trainer.h"

namespace trireme {

/// What is known of the layout that was chosen.
struct LayoutChoice {
  std::string report;  // lines: the best layouts, and what is doubtful
  StepPrediction predicted;
};

/// For Application::choose: the options of the fastest layout that fits the ranks; none without
/// --plan auto. Options of a layout that are given stay as they are. The layout of the checkpoint
/// that --load resumes from is kept where it was written by as many ranks, and is legal and fits.
/// What is wrong is added to `problems`.
KeyValues choose_layout(const CommandLine& command, const Options& options, const GptOptions& gpt,
                        const RankCounts& counts, LayoutChoice& choice, Problems& problems);

/// Logs the report, if there is one.
void describe_layout_choice(const Log& log, const LayoutChoice& choice);

}  // namespace trireme
