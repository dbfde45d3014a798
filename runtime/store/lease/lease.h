// Lease: the exclusive right to write to a directory of checkpoints. A file ROOT/lock names host,
// pid and run, and is renewed while the process lives. Works on shared file systems without locks.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/core/error.h"

#include "runtime/store/lease/lease_holder.h"

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
