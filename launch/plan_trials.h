// trireme plan --try N: the best layouts run for a few steps each, and the fastest is chosen.
#pragma once

#include <string>
#include <vector>

#include "launch/verify/run_job.h"
#include "runtime/layouts/search/answer.h"

namespace trireme {

struct Trials {
  std::size_t layouts = 0;                       // that run
  std::vector<std::string> mpirun = {"mpirun"};  // and options for it
};
/// Runs the best layouts for five steps each, with tokens at random unless the task has
/// --data-path. Sets Answer::tried, and puts the fastest in front of SearchResult::best. Throws:
/// Error when none of them trains, verify::Interrupted.
void try_layouts(const layouts::TrainingTask& task, const layouts::Question& question,
                 const Trials& trials, const EndSignals& signals, layouts::Answer& answer);

}  // namespace trireme
