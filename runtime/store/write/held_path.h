// HeldPath: a new file or directory under a name of its own, which is removed or renamed by the
// same process. The process holds a lock on it, which ends with the process, however that ends: who
// makes the next one of the same series removes what processes that have ended have left.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

class HeldPath {
 public:
  enum class Kind { file, directory, private_directory };  // private: no other user can enter

  /// Makes "SERIES<16 hex digits>END". Half of the digits stand for this machine, as only its
  /// kernel certainly knows of the lock; the others are drawn. Throws: Error.
  HeldPath(Kind kind, const std::string& series, const std::string& end);
  /// Removes it with all that is in it, unless it was kept.
  ~HeldPath();
  HeldPath(const HeldPath&) = delete;
  HeldPath& operator=(const HeldPath&) = delete;

  const std::string& path() const { return path_; }
  /// It was renamed or removed.
  void keep() { kept_ = true; }

 private:
  std::string path_;
  int lock_ = -1;
  bool kept_ = false;
};

/// TemporaryDirectory: a new directory that no other user can enter, removed with all that is in
/// it.
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
