// What a job prints: what it says of its end, without the boxes that mpirun prints of its own
// accord (lines between two rules of dashes, of which the supervisor knows some), and the file that
// keeps it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor {

/// Returns why mpirun has started nothing, with the remedy, where a box with this first line says
/// so; empty: it does not.
std::string refusal_in(std::string_view first_line);
/// Returns that reason for a line outside of boxes, which mpirun or srun prints.
std::string refusal_of(std::string_view line);
/// Returns whether a box with this first line says why a job has ended, not only that it has.
bool says_why(std::string_view first_line);

/// A job's output without the boxes that the supervisor knows.
class OutsideBoxes {
 public:
  /// Returns what is to be shown of the text, and of the text before it. Only what may be the
  /// beginning of a box is held back.
  std::string pass(std::string_view text);
  /// Returns what is held back: the output has ended.
  std::string rest();
  /// Returns the first lines of the boxes that were left out.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  void end_line(std::string& shown);

  std::string rule_;  // a rule with its end, before a line that is not complete
  std::string line_;  // the part of the line that is not shown so far
  bool partly_shown_ = false, in_box_ = false;
  int lines_ = 0;  // the number of lines of the box so far
  std::vector<std::string> left_out_;
};

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

  std::string open_;  // a line without its end
  std::string open_of_program_;
  OutsideBoxes outside_;
  std::size_t boxes_noted_ = 0;
  bool is_heading_ = false;  // the first problem of a list comes next
  std::string others_;       // " (the first of 2 problems)"; empty: there is one
  Evidence found_;
};

/// Keeps what an attempt prints in a file that is begun anew before it grows too long.
class OutputLog {
 public:
  /// A part that is full is renamed to PATH.1, in place of the part before. Throws: Error.
  OutputLog(std::string path, Index most_bytes);
  ~OutputLog();
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;
  /// Appends the text. A full disk costs lines, not the job.
  void write(std::string_view text);

 private:
  void open();

  std::string path_;
  Index most_bytes_, bytes_ = 0;
  int file_ = -1;
};

}  // namespace trireme::supervisor
