// MetricsFile: the sink of --metrics, JSON lines for programs.
#pragma once

#include <string>
#include <string_view>

#include "runtime/train/sinks/sinks.h"

namespace trireme::train {

/// Throws: Error when a metric would be called as what every line of metrics has, or as one of an
/// evaluation.
void check_metric_name(const std::string& name);

/// Lines are appended: one write(2) per line, so that a reader never sees half of one and several
/// runs may share a file. Numbers that are not finite become null.
class MetricsFile final : public Sink {
 public:
  /// Removes a last line that a killed job left unfinished. Throws: Error when the file cannot be
  /// opened, or its last line is not a metrics line.
  explicit MetricsFile(const std::string& path);
  ~MetricsFile() override;
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  /// For a job that resumes after `step`; call before its first line. Removes the lines of later
  /// steps, which will be repeated, and returns their number. Looks back only as far as steps
  /// ascend: earlier lines belong to other jobs. Throws: Error when one of them is not a metrics
  /// line; nothing is then removed.
  Index go_back_to(Index step);

  using Sink::take;
  /// Throws: Error when the file system takes less than the whole line.
  void take(const StepRecord& step) override { append(step); }
  void take(const EvaluationRecord& evaluation) override { append(evaluation); }

 private:
  template <class Record>
  void append(const Record& record);
  void write(std::string_view line);

  const std::string path_;
  int file_ = -1;
};

}  // namespace trireme::train
