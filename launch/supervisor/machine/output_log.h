// OutputLog: what an attempt prints, in a file that is begun anew before it grows too long, and
// what it says of how the attempt ended.
#pragma once

#include <string>
#include <string_view>

#include "launch/supervisor/decide/launcher.h"
#include "launch/supervisor/machine/open_mpi_boxes.h"

namespace trireme::supervisor {

/// Reads what an attempt prints: the first error of the program, what mpirun says of its end, and
/// the hosts that it names.
class EvidenceReader {
 public:
  void read(std::string_view text);
  const Evidence& found() const { return found_; }

 private:
  void read_line(const std::string& line);
  void read_line_of_program(const std::string& line);
  void note_boxes();

  std::string open_;  // line without its end
  std::string open_of_program_;
  OutsideBoxes outside_;
  std::size_t boxes_noted_ = 0;
  bool is_heading_ = false;  // the first problem of a list comes next
  std::string others_;       // " (the first of 2 problems)"; empty: there is one
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
