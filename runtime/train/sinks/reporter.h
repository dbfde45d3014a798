// Reporter: the sink for people: it writes to the log of the job.
#pragma once

#include <span>
#include <string_view>

#include "runtime/train/sinks/sinks.h"

namespace trireme::train {

/// "[=====     ] 252/1500  loss 2.4433  left 0:03:22" into `line`, at most columns - 1 characters:
/// a bar of up to 40 columns that is left out where it would have fewer than 10, then the end of
/// the text. Returns what it has written. Allocates nothing.
std::string_view show_progress(std::span<char> line, int columns, Index step, Index steps,
                               double loss, double seconds_left);

/// Writes a table with one line per interval of steps: the loss of the last of them, times and
/// rates as means over all. Between lines it shows progress on a terminal.
class Reporter final : public Sink {
 public:
  Reporter(const Log& log, Index log_interval) : log_(log), log_interval_(log_interval) {}
  /// Writes the head of the table.
  void begin(const RunRecord& run) override;
  void take(const StepRecord& step) override;
  void take(const EvaluationRecord& evaluation) override;
  void take(const SaveRecord& save) override;
  void take(const NoteRecord& note) override;

 private:
  void print_line(const StepRecord& step);
  void print_progress(const StepRecord& step);
  double seconds_left(Index step) const;

  const Log& log_;
  const Index log_interval_;
  RunRecord run_;
  Index interval_steps_ = 0, interval_targets_ = 0;
  double interval_ms_ = 0, all_ms_ = 0;
  Index all_steps_ = 0;
  double progress_ms_ = 0;  // since the bar was drawn
};

}  // namespace trireme::train
