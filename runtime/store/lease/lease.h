// Lease: the exclusive right to write to a directory of checkpoints. A file ROOT/lock names host,
// pid and run, and is renewed while the process lives. Works on shared file systems without locks.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/core/dtype.h"
#include "trireme/core/error.h"

namespace trireme::store {

// The holder of a lease: what the lock file says about a process, and whether that process has
// certainly ended.

/// Says of which supervised run a job is, and which of its attempts.
struct Lineage {
  std::string run;    // empty: of none
  Index attempt = 0;  // from 1
  /// Whether a job of `this` has certainly ended because one of `later` was started: a supervisor
  /// starts an attempt only after it has seen the end of the one before.
  bool ended_before(const Lineage& later) const {
    return !run.empty() && run == later.run && attempt < later.attempt;
  }
};

struct LeaseHolder {
  std::string id;    // id of this one lease: no other has it
  std::string host;  // for people; two machines may have one name
  Index pid = 0;
  Index started = 0;  // ticks from the machine's start to that of the process: pids are used again
  std::string boot;   // boot id of the kernel
  std::string processes;  // the pid namespace in which `pid` counts
  std::string run;
  std::string since;  // UTC, for people
  Lineage lineage;

  /// This process, with a fresh id.
  static LeaseHolder self(const std::string& run, const Lineage& lineage = {});
  /// Each is true only if this process can know: same running kernel, and same pid namespace.
  bool certainly_gone() const;
  bool certainly_lives() const;
  /// "pid 71 on node3 (run 20261121-1, since 2026-11-21T04:12:28Z)"
  std::string described() const;

 private:
  bool can_be_asked_for() const;
};

std::string to_text(const LeaseHolder& holder);
/// Returns nothing when it is not a lock of trireme, or half written.
std::optional<LeaseHolder> parse_lease_holder(std::string_view text);

}  // namespace trireme::store

namespace trireme {

struct LeaseOptions {
  double wait_s = 10;   // for a holder that is ending
  double stale_s = 30;  // a lease not renewed for so long is void
  double renew_s = 5;
  double torn_s = 2;  // so is one without its whole text: its holder died while it took it
};

/// Called while waiting for another job's lease: true ends the wait.
using GiveUp = std::function<bool()>;
class LeaseGivenUp : public Error {
 public:
  using Error::Error;
};

class Lease {
 public:
  /// Takes the lease; at once when its holder was a process of this host that is gone, or an
  /// earlier attempt of the same supervised run. Throws: Error that names host, pid and run of the
  /// holder, and what to do; or LeaseGivenUp.
  Lease(const std::string& root, const std::string& run, const LeaseOptions& options = {},
        const GiveUp& give_up = {}, const store::Lineage& lineage = {});
  /// Releases the lease if this process still holds it.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  /// False once another job has taken it over (this process was stopped too long): nothing may be
  /// committed any more.
  bool held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
