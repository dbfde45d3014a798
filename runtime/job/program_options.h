// From the command line of a program to options that are checked, and what ranks compare of them.
//
// Private to job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/job/rank_agreement.h"

namespace trireme::job {

/// The arguments of run().
struct Program {
  int argc;
  char** argv;
  const Application& application;
  const std::function<void(Context&)>& f;
};

/// The options that ranks compare, in order: the first difference explains those that follow from
/// it.
struct StartFacts {
  std::vector<RankFact> program, given, effective;
  std::string from_checkpoint = {};  // what was taken from a checkpoint or model, for the log
  std::string layouts = {};          // --check-layout, which run() reads before there are ranks
  bool chosen = false;               // Application::choose has chosen some
};

/// Collective. Reads the options of one rank and checks them for a job of these ranks. `mesh`: of
/// all ranks, or of one that speaks for them. `counts`: RankCounts::per_node is of the node of this
/// rank. `facts` outlives `command`.
CommandLine::Outcome read_options(int argc, char** argv, const Application& application,
                                  CommandLine& command, Options& options, Mesh& mesh,
                                  const RankCounts& counts, StartFacts& facts, Problems& problems);

}  // namespace trireme::job
