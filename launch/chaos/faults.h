// Faults that `trireme chaos` asks for. Only a supervisor with --allow-chaos takes requests. It
// sends a signal to a process that it has started, or to itself, or asks a rank of its own by the
// rank's status page to plant the fault in itself. It never touches hosts, links or checkpoints:
// what is done to those, a command of the user does, or is done to a copy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "launch/supervisor/machine/machine.h"
#include "launch/supervisor/machine/processes.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/records/ledger.h"
#include "launch/supervisor/records/nodes.h"
#include "runtime/observe/injection.h"

namespace trireme::supervisor {

/// host: that a command of the user disturbs; copy: of a checkpoint, which the supervisor never
/// sees.
enum class Victim { rank, launcher, daemon, supervisor, host, copy };

struct FaultKind {
  std::string name;
  Victim victim;
  int signal;  // 0: none
  observe::InjectedFault injected;
  std::vector<Cause> causes;  // expected in the ledger for the attempt; none: it continues
  bool takes_host = false;    // whether it takes a host out of the run, where there are several
  bool is_expected(Cause cause) const;
};
const std::vector<FaultKind>& fault_kinds();
/// Returns null where there is none of this name.
const FaultKind* find_fault_kind(const std::string& name);

/// What a supervisor with --allow-chaos writes for `trireme chaos`.
struct ChaosOffer {
  std::string run, token;  // run: its directory
  double hang_s = 0;       // after which it ends a job that does nothing; 0: never
  bool compares = true;    // whether the job compares its data replicas
};
/// Returns nothing where there is none that can be read.
std::optional<ChaosOffer> read_offer(const Paths& paths);
/// Removes that of a supervisor that was killed.
void remove_offer(const Paths& paths);

struct FaultRequest {
  std::string token, kind;
  Index draw = 0;  // which process of the kind, by the remainder
};
void ask_for(const FaultRequest& request, const Paths& paths);
bool is_pending(const Paths& paths);
void withdraw_request(const Paths& paths);

/// A fault that is to be done.
struct FaultOrder {
  Fault fault;
  pid_t process = -1;  // that gets the signal; -1: none
  int signal = 0;
  std::string page = {};  // status page of the rank that is asked; empty: none
  observe::Injection injection = {};
};

/// The supervisor's side. While it exists, requests are taken.
class FaultDesk {
 public:
  /// `variable`: "NAME=VALUE" in the environment of all processes of the run. Throws: Error.
  FaultDesk(const Paths& paths, double hang_s, std::string variable, bool compares = true);
  ~FaultDesk();
  FaultDesk(const FaultDesk&) = delete;
  FaultDesk& operator=(const FaultDesk&) = delete;

  /// The order that a request gives for what runs; nothing: there is no request. Throws: Error for
  /// one that cannot be met, which is removed.
  std::optional<FaultOrder> read(const Scene& scene) const;
  /// Removes the request, then sends the signal or asks the rank.
  void strike(const FaultOrder& order) const;

 private:
  const Paths paths_;
  const std::string variable_, token_;
};

/// The processes that a signal of this kind may hit: those of ranks (their innermost ones), daemons
/// of other hosts, mpirun, or this process.
std::vector<Descendant> victims_of(const FaultKind& kind, pid_t mpirun);
/// The ranks on this machine that may be asked for a fault of this kind, by their pages.
std::vector<int> ranks_to_ask(const FaultKind& kind, const std::string& pages);

/// From now on meets requests at each observation of this machine. `compares`: whether the job
/// compares its data replicas.
void accept_faults(Machine& machine, double hang_s, bool compares);

}  // namespace trireme::supervisor
