// The file of a lease, ROOT/lock: it exists with its whole text or not at all, and is removed only
// if it is still the intended one. lease.cpp decides which process may take it over.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/store/file.h"

namespace trireme::store {

/// The lock as seen once. Opening it makes network file systems ask their server.
struct LockSight {
  std::string text;
  Index changed_ns = 0;
  /// Returns the id of the lease that it is; the whole text where that is not one of ours.
  std::string id() const;
  /// False when its writer died between creating and writing the file: an older version of trireme,
  /// or a file system without hard links.
  bool whole() const { return text.ends_with('\n'); }
  friend bool operator==(const LockSight&, const LockSight&) = default;
};

/// Returns nothing when there is no lock.
std::optional<LockSight> look_at_lock(const std::string& lock);

/// Creates the lock, unless another process is first; look at the lock again to find out. `id`: no
/// other process uses it. Returns the open file that then has the lock's name.
File create_lock(const std::string& lock, const std::string& text, const std::string& id);

/// Removes the lock with this `id`, and no other. `own_id`: of the process that would have it gone.
void remove_lock(const std::string& lock, const std::string& id, const std::string& own_id);

/// Files that a process leaves beside the lock when it dies in one of these.
bool is_left_of_lock(std::string_view name);

}  // namespace trireme::store
