// From the command line of a program to options that are checked, with those that a checkpoint or a
// model has saved; and what ranks compare of them.
//
// Private to job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/host.h"
#include "trireme/job/run.h"
#include "trireme/options/options.h"

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

/// --use-checkpoint-args: the options with which the job of a checkpoint ran; and what ranks agree
/// on, of these or of those of --load-hf.
struct SavedOptions {
  KeyValues options;
  std::string origin;                         // "step 10 of run"
  std::string why = "--use-checkpoint-args";  // the option that asks for them
};

/// The options of the step that --ckpt-step selects, otherwise of the newest one whose manifest can
/// be read. Loading goes back further where tensors are damaged. Returns nothing if there is no
/// such step, which is added to `problems`, or if --load itself is wrong.
std::optional<SavedOptions> read_saved_options(const CheckpointOptions& options,
                                               Problems& problems);

/// Collective, whatever the options of a rank: what `read` finds on rank 0, and its problems, on
/// every rank where `wanted`. Steps come and go, so ranks that read on their own could read
/// different ones. Returns nothing on all ranks if rank 0 wants nothing; ranks compare their
/// options afterwards.
std::optional<SavedOptions> agree_on_saved_options(
    const Host& host, bool wanted,
    const std::function<std::optional<SavedOptions>(Problems&)>& read, Problems& problems);

}  // namespace trireme::job
