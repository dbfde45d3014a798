// The file of a lease, ROOT/lock: it is there with its whole text or not at all, and goes only
// while it is still the one that was meant. Who may take it from whom is decided in lease.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/store/file.h"

namespace trireme {

/// The lock as seen once. Opening it makes network file systems ask their server.
struct LockSight {
  std::string text;
  Index changed_ns = 0;
  /// Of the lease that it is; the whole text where that is not one of ours.
  std::string id() const;
  /// False where somebody died between making the file and having written it: an older version, or
  /// one without hard links.
  bool whole() const { return text.ends_with('\n'); }
  friend bool operator==(const LockSight&, const LockSight&) = default;
};

/// Nothing when there is no lock.
std::optional<LockSight> look_at_lock(const std::string& lock);

/// Makes the lock, unless somebody is first: who looks again knows. `id`: no other process uses it.
/// Returns the open file that has the lock's name then.
File create_lock(const std::string& lock, const std::string& text, const std::string& id);

/// Removes the lock with this `id`, and no other. `own_id`: of the process that would have it gone.
void remove_lock(const std::string& lock, const std::string& id, const std::string& own_id);

/// What a process leaves beside the lock when it dies in one of these.
bool is_left_of_lock(std::string_view name);

}  // namespace trireme
