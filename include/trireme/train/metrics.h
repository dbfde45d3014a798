// Metrics: what a step, and an evaluation, did.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// A metric of the model (Graph::metric): its mean over the targets.
struct Metric {
  std::string name;
  double value = 0;
};

struct StepMetrics {
  Index step = 0;        // 1 for the first
  double loss = 0;       // mean over the targets of the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double step_ms = 0;
  Index targets = 0;                // tokens of the global batch that count
  bool skipped = false;             // the gradients were not finite: nothing was updated
  Index skipped_in_row = 0;         // this step and those right before it
  std::span<const Metric> metrics;  // owned by the Trainer: valid until its next step
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

}  // namespace trireme
