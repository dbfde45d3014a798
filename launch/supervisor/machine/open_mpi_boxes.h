// What mpirun prints of its own accord: boxes, which are lines between two rules of dashes. The
// supervisor knows some by their first line, and says in one sentence what they mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::supervisor {

/// Why mpirun has started nothing, with the remedy, where a box with this first line says so;
/// empty: it does not.
std::string refusal_in(std::string_view first_line);
/// Returns that reason for a line outside of boxes, which mpirun or srun prints.
std::string refusal_of(std::string_view line);
/// Whether a box with this first line says why a job has ended, not only that it has.
bool says_why(std::string_view first_line);

/// A job's output without the boxes that the supervisor knows.
class OutsideBoxes {
 public:
  /// Returns what is to be shown of the text, and of the text before it. Only what may be the
  /// beginning of a box is held back.
  std::string pass(std::string_view text);
  /// Returns what is held back: the output has ended.
  std::string rest();
  /// First lines of the boxes that were left out.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  void end_line(std::string& shown);

  std::string rule_;  // with its end, before a line that is not complete
  std::string line_;  // what of it is not shown, so far
  bool partly_shown_ = false, in_box_ = false;
  int lines_ = 0;  // of the box so far
  std::vector<std::string> left_out_;
};

}  // namespace trireme::supervisor
