// TemporaryDirectory: a new directory, removed with all that is in it.
#pragma once

#include <string>

namespace trireme::supervisor {

class TemporaryDirectory {
 public:
  /// "PARENT/PREFIX-XXXXXX". Throws: Error.
  TemporaryDirectory(const std::string& parent, const std::string& prefix);
  /// Processes that were ended may still remove their files: it tries for 2 s, and then says what
  /// is left.
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace trireme::supervisor
