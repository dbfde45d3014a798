// What ended an attempt, who is to blame, and what to do next: the exit codes, the backoff, and the
// end when restarting does not help. Pure functions of what was seen and of the ledger.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/records/gpu_signs.h"
#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

/// Exit codes of `trireme run`. Those that a child may return mean the same there.
namespace code {
constexpr int done = 0, failed = 1, configuration = 64, numerics = 65, corruption = 66,
              no_nodes = 69, no_help = 70, stopped = 75;
}

/// Facts of an attempt whose processes are all gone.
struct Facts {
  int code = 0;                  // of mpirun; 128 + the signal that ended it
  bool launcher_killed = false;  // a signal ended mpirun itself
  bool hang = false;             // it was ended because nothing moved
  bool grows = false;            // it was asked to save and end, to continue on more hosts
  bool replaces = false;         // or to continue without one of its hosts
  int stop = 0;                  // the signal that asked for its end; 0: none
  bool watched = true;           // steps are seen; otherwise only the exit code is known
  bool finished = false;         // all steps are done, as the metrics and checkpoints say
  Index resumed = 0, last_step = 0, durable = 0;
  std::vector<std::string> wrong_hosts = {};  // ranks there held other bits than their replicas
  std::optional<Index> clean = {};            // newest_clean_step(); no part of the verdict
  bool daemon_lost = false;  // the launcher lost contact with a host that it does not name
  std::vector<std::string> unreachable = {};  // hosts, after that
  std::string lost_host = {};                 // the launcher lost contact with it
  std::string rank_host = {};                 // where a rank was ended by a signal
  std::string first_error = {};          // line of the output; of a hang what the status pages show
  std::string last_line = {}, box = {};  // Evidence's
  std::string refusal = {};              // why mpirun has started nothing, with the remedy
  std::string rank_end = {};             // which rank a signal has ended, where, and in what
  std::string hang_kind = {};            // of a hang that they show
  std::vector<std::string> hang_hosts = {};  // whose ranks hold the others up
  std::string out_of_memory = {};  // evidence that the kernel ended a process for lack of memory
  std::vector<GpuSign> gpu_signs = {};
  double gpus_per_rank = -1;           // no part of the verdict
  std::vector<std::string> slow = {};  // ranks and nodes, a line each; no part of the verdict
  std::string slow_host = {}, why_slow = {};  // that a spare replaces; empty: none
};

struct Verdict {
  Cause cause;
  std::string signature;  // equal for failures that look alike
  std::vector<Blame> blame;
};
Verdict judge(const Facts& facts);
/// What is known of why an attempt with this cause has ended, in a sentence; empty where the cause
/// says all.
std::string reason_of(Cause cause, const Facts& facts);
/// "SIGKILL".
std::string name_of_signal(int signal);

/// Whether the attempt has ended, and made a durable step.
bool progressed(const Attempt& attempt);

struct Decision {
  bool restart = false;
  int exit_code = code::done;  // when it does not restart
  double delay_s = 0;          // when it does
  std::string why = {};
};
/// `history`: with this attempt as its last, which has ended.
Decision decide(const Facts& facts, const History& history, Index max_restarts);

}  // namespace trireme::supervisor
