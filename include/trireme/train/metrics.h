// Metrics: what a step did, as a table for people and as JSON lines for programs. Only rank 0
// writes. Nothing here allocates after construction.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/core/dtype.h"
#include "trireme/core/log.h"

namespace trireme {

/// A metric of the model (Graph::metric): its mean over the targets.
struct Metric {
  std::string name;
  double value = 0;
};
/// Throws: Error when a metric would be called as what every line of metrics has, or as one of an
/// evaluation.
void check_metric_name(const std::string& name);

struct StepMetrics {
  Index step = 0;        // 1 for the first
  double loss = 0;       // mean over the targets of the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double step_ms = 0;
  Index targets = 0;                // tokens of the global batch that count
  bool skipped = false;             // the gradients were not finite: nothing was updated
  bool loss_spike = false;          // it completes one (docs/concepts/silent_corruption.md)
  Index skipped_in_row = 0;         // this step and those right before it
  std::span<const Metric> metrics;  // owned by the Trainer: valid until its next step
  std::optional<double> valid_loss, valid_bits_per_byte;
  std::span<const Metric> valid_metrics;  // until its next evaluation
};

/// The loss over each token of some data.
struct EvaluationMetrics {
  Index step = 0;      // after which it was computed
  std::string source;  // PREFIX of the data, or "blend"
  Index targets = 0;
  double loss = 0;  // mean over the targets; of a blend over its parts by their weights
  std::optional<double> bytes_per_target = {};  // as DataSource::bytes_per_target
  double perplexity() const;
  std::optional<double> bits_per_byte() const;
  /// "loss 2.0794415, perplexity 8, 1.5 bits per byte"
  std::string describe() const;
};
/// What a text costs that is coded by the model: loss / (ln 2 * bytes_per_target). Comparable
/// between tokenizers (Gao et al., "The Pile", 2020, section 3.1). None where the bytes are not
/// known.
std::optional<double> bits_per_byte(double loss, std::optional<double> bytes_per_target);

/// JSON lines, appended: one write(2) per line, so that a reader never sees half of one and several
/// runs may share a file. Numbers that are not finite become null.
class MetricsFile {
 public:
  /// Empty path: writes nothing. A last line that a killed job left unfinished is removed. Throws:
  /// Error when the file cannot be opened, or its last line is not a metrics line.
  explicit MetricsFile(const std::string& path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  /// For a job that resumes after `step`; call before its first line. Removes the lines of later
  /// steps, which will be repeated, and returns their number. Looks back only as far as steps
  /// ascend: earlier lines belong to other jobs. Throws: Error when one of them is not a metrics
  /// line; nothing is then removed.
  Index go_back_to(Index step);
  /// Throws: Error when the file system takes less than the whole line.
  void append(const StepMetrics& metrics);
  void append(const EvaluationMetrics& metrics);

 private:
  void write(std::string_view line);

  std::string path_;
  int file_ = -1;
};

struct ReporterOptions {
  Index train_iters = 0;
  Index log_interval = 1;
  double flops_per_step = 0;     // sum over all ranks, without recomputation
  std::function<int()> columns;  // width now of the terminal that shows progress; 0 or empty: none
};

/// "[=====     ] 252/1500  loss 2.4433  left 0:03:22" into `line`, at most columns - 1 characters:
/// a bar of up to 40 columns that is left out where it would have fewer than 10, then the end of
/// the text. Returns what it has written. Allocates nothing.
std::string_view show_progress(std::span<char> line, int columns, Index step, Index steps,
                               double loss, double seconds_left);

/// One line per interval: the loss of its last step, times and rates as means over it.
class Reporter {
 public:
  Reporter(const Log& log, ReporterOptions options);
  /// The head of the table; before the first line. `peak_flops`: GEMM rate of all ranks together,
  /// of which lines show the share; 0: unknown.
  void begin(double peak_flops);
  void step(const StepMetrics& metrics);

 private:
  void print_line(const StepMetrics& metrics);
  void print_progress(const StepMetrics& metrics);
  double seconds_left(Index step) const;

  const Log& log_;
  ReporterOptions options_;
  double peak_flops_ = 0;
  Index interval_steps_ = 0, interval_targets_ = 0;
  double interval_ms_ = 0, all_ms_ = 0;
  Index all_steps_ = 0;
  double progress_ms_ = 0;  // since the bar was drawn
};

}  // namespace trireme
