// Unfinished: a file or directory that is written under a name of its own, and gets its final name
// when it is whole. Two writers of one final name do not touch each other's, and what a writer that
// was killed has left is removed by the next one.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "runtime/core/output/output_file.h"
#include "runtime/store/write/held_path.h"

namespace trireme {

class Unfinished {
 public:
  enum class Over { nothing, file };  // what it may replace

  /// Makes it, empty. `path`: the final name. Throws: Error, also when something has the name
  /// already that may not be replaced.
  Unfinished(std::string path, HeldPath::Kind kind, Over over = Over::nothing);

  /// "<final name>.<16 hex digits>.tmp"
  const std::string& path() const { return held_.path(); }
  /// Gives it the final name, and syncs the directory around it; its content is synced. Throws:
  /// Error when something has taken that name meanwhile that may not be replaced, and stays.
  void finish();

 private:
  std::string final_;
  Over over_;
  HeldPath held_;
};

/// Writes a whole file in place of one that was there: after a crash it is the old or the new one.
void replace_file(const std::string& path, const std::string& text);

/// Replaces a file at a path of the user, as open_output(), with its links, pipes and devices.
/// Throws: Error "PATH: WHY".
void write_output(const std::string& path, const std::string& text, const OutputKind& kind);

}  // namespace trireme
