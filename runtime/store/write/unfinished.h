// Unfinished: a file or directory that is written under a name of its own, and gets its final name
// when it is whole. Two writers of one final name do not touch each other's.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

class Unfinished {
 public:
  /// `path`: the final name. Throws: Error when something has it already.
  explicit Unfinished(std::string path);
  /// Removes what lies under path(), unless finish() has renamed it.
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  /// "<final name>.<16 hex digits>.tmp", drawn: nothing else has it. The caller makes it.
  const std::string& path() const { return path_; }
  /// Gives it the final name, and syncs the directory around it. Throws: Error when something has
  /// taken that name meanwhile, which stays as it is.
  void finish();

 private:
  std::string final_, path_;
};

}  // namespace trireme
