// Faults that `trireme chaos` asks for. Only a supervisor with --allow-chaos takes requests, and it
// does no more than send a signal to a process that it has started, or to itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "launch/supervisor/machine/processes.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

enum class Victim { rank, launcher, daemon, supervisor };

struct FaultKind {
  std::string name;
  Victim victim;
  int signal;
  std::string cause;  // of the attempt, in the ledger
};
const std::vector<FaultKind>& fault_kinds();
/// Null: there is none of this name.
const FaultKind* find_fault_kind(const std::string& name);

/// What a supervisor with --allow-chaos writes for `trireme chaos`.
struct ChaosOffer {
  std::string run, token;  // run: its directory
  double hang_s = 0;       // after which it ends a job that does nothing; 0: never
};
/// Nothing: there is none that can be read.
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
  pid_t process = -1;
  int signal = 0;
};

/// The supervisor's side. While it exists, requests are taken.
class FaultDesk {
 public:
  /// `variable`: "NAME=VALUE" in the environment of all processes of the run. Throws: Error.
  FaultDesk(const Paths& paths, double hang_s, std::string variable);
  ~FaultDesk();
  FaultDesk(const FaultDesk&) = delete;
  FaultDesk& operator=(const FaultDesk&) = delete;

  /// The order that a request gives for the processes of a running mpirun; nothing: there is no
  /// request. Throws: Error for one that cannot be met, which is removed.
  std::optional<FaultOrder> read(pid_t mpirun, Index attempt, Index date) const;
  /// Removes the request, then sends the signal.
  void strike(const FaultOrder& order) const;

 private:
  const Paths paths_;
  const std::string variable_, token_;
};

/// The processes that a fault of this kind may hit: those of ranks (their innermost ones), daemons
/// of other hosts, mpirun, or this process.
std::vector<Descendant> victims_of(const FaultKind& kind, pid_t mpirun);

}  // namespace trireme::supervisor
