// The holder of a lease: what the lock file says about a process, and whether that process has
// certainly ended.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/core/dtype.h"

namespace trireme::store {

/// Of which supervised run a job is, and which of its attempts.
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
  std::string id;    // of this one lease: no other has it
  std::string host;  // for people; two machines may have one name
  Index pid = 0;
  Index started = 0;  // ticks from the machine's start to that of the process: pids are used again
  std::string boot;   // of the kernel
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
/// Nothing when it is not a lock of trireme, or half written.
std::optional<LeaseHolder> parse_lease_holder(std::string_view text);

}  // namespace trireme::store
