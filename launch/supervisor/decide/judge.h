// What ended an attempt, who is to blame, and what to do next: the exit codes, the backoff, and the
// end when restarting does not help. Pure functions of what was seen and of the ledger.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor {

/// Exit codes of `trireme run`. Those that a child may return mean the same there.
namespace code {
constexpr int done = 0, failed = 1, configuration = 64, numerics = 65, corruption = 66,
              no_nodes = 69, no_help = 70, stopped = 75;
}

/// What is known of an attempt. While it runs, the supervisor writes here what it sees of it; once
/// its processes are all gone, the evidence is there as well.
struct Facts {
  int code = 0;                      // mpirun's exit code, or 128 + the signal that ended it
  bool launcher_killed = false;      // a signal ended mpirun itself
  bool hang = false;                 // it was ended because nothing moved
  std::optional<Hang> stuck = {};    // what the status pages showed when nothing moved any more
  bool grows = false;                // it was asked to save and end, to continue on more hosts
  std::optional<Leave> leaves = {};  // it was asked to continue without this host
  int stop = 0;                      // the signal that asked for its end; 0: none
  bool watched = true;               // steps are seen; otherwise only the exit code is known
  Index resumed = 0, last_step = 0, durable = 0;
  bool finished = false;  // all steps are done, as the metrics and checkpoints say
  Evidence evidence = {};
  std::vector<std::string> wrong_hosts = {};  // ranks there held other bits than their replicas
  std::vector<std::string> unreachable = {};  // hosts, after the launcher has lost one
};

Verdict judge(const Facts& facts);
/// Returns "SIGKILL", or "signal 99" for one without a name.
std::string name_of_signal(int signal);

/// Returns whether the attempt has ended, and made a durable step.
bool progressed(const Attempt& attempt);

struct Decision {
  bool restart = false;
  int exit_code = code::done;  // the code to end with, when it does not restart
  double delay_s = 0;          // the time until it restarts, when it does
  std::string why = {};
};
/// Decides what to do after an attempt. `history`: with this attempt as its last, which has ended.
Decision decide(const Facts& facts, const History& history, Index max_restarts);

}  // namespace trireme::supervisor
