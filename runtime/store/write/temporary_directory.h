// TemporaryDirectory: a new directory that no other user can enter, removed with all that is in it.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "runtime/store/write/held_path.h"

namespace trireme {

class TemporaryDirectory {
 public:
  /// "PARENT/PREFIX-<16 hex digits>"; removes those of processes that were killed. Throws: Error.
  TemporaryDirectory(const std::string& parent, const std::string& prefix);
  /// Processes that were ended may still remove their files: it tries for 2 s, and then says what
  /// is left.
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return held_.path(); }

 private:
  HeldPath held_;
};

}  // namespace trireme
