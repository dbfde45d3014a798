// OutputLog: what an attempt prints, in a file that is begun anew before it grows too long, and
// what it says of how the attempt ended.
#pragma once

#include <string>
#include <string_view>

#include "launch/supervisor/decide/world.h"

namespace trireme::supervisor {

/// Reads lines and keeps the first error, and the hosts that mpirun names.
class EvidenceReader {
 public:
  void read(std::string_view text);
  const Evidence& found() const { return found_; }

 private:
  void read_line(const std::string& line);

  std::string open_;  // line without its end
  Evidence found_;
};

class OutputLog {
 public:
  /// A part that is full is renamed to PATH.1, in place of the part before. Throws: Error.
  OutputLog(std::string path, Index most_bytes);
  ~OutputLog();
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;
  /// A full disk costs lines, not the job.
  void write(std::string_view text);

 private:
  void open();

  std::string path_;
  Index most_bytes_, bytes_ = 0;
  int file_ = -1;
};

}  // namespace trireme::supervisor
