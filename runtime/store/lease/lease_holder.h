// The holder of a lease: what the lock file says about a process, and whether that process has
// certainly ended.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/core/dtype.h"

namespace trireme::store {

struct LeaseHolder {
  std::string id;    // of this one lease: no other has it
  std::string host;  // for people; two machines may have one name
  Index pid = 0;
  Index started = 0;  // ticks from the machine's start to that of the process: pids are used again
  std::string boot;   // of the kernel
  std::string processes;  // the pid namespace in which `pid` counts
  std::string run;
  std::string since;  // UTC, for people

  /// This process, with a fresh id.
  static LeaseHolder self(const std::string& run);
  /// True only if this process can know: same running kernel, and same pid namespace.
  bool certainly_gone() const;
  /// "pid 71 on node3 (run 20261121-1, since 2026-11-21T04:12:28Z)"
  std::string described() const;
};

std::string to_text(const LeaseHolder& holder);
/// Nothing when it is not a lock of trireme, or half written.
std::optional<LeaseHolder> parse_lease_holder(std::string_view text);

}  // namespace trireme::store
