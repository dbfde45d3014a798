// Records: what a job reports of its training, as typed values. A save reports its own
// (runtime/checkpoint/save_record.h). describe() visits the members of what --metrics
// has lines of, in their order and under their names there: member(name, value), where a name may
// come in two parts.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "trireme/train/metrics.h"

namespace trireme::train {

/// What stays the same in all steps of a job.
struct RunRecord {
  Index resumed_after = 0;  // steps that were done before
  Index train_iters = 0;
  DType compute = DType::f32;
  double flops_per_step = 0;    // sum over all ranks, without recomputation
  double peak_flops_per_s = 0;  // GEMM rate of all ranks together; 0: unknown
};

/// A step, and what the loop around steps adds to it.
struct StepRecord : StepMetrics {
  bool loss_spike = false;  // the step completes one (docs/concepts/silent_corruption.md)
  std::optional<double> valid_loss = {}, valid_bits_per_byte = {};
  std::span<const Metric> valid_metrics = {};  // valid until the next evaluation
};

/// An evaluation of all of some data.
struct EvaluationRecord : EvaluationMetrics {
  std::size_t blended_files = 0;  // whose losses it is the mean of; 0: it is no blend
};

/// A sentence about what happened.
struct NoteRecord {
  enum class Kind {
    loss_spike,
    stopped,   // the ranks were asked to stop, and have
    diverged,  // the sentence is the error with which the job ends
  };
  Kind kind;
  Index step = 0;
  std::string text;
};

void describe(const StepRecord& step, auto& member) {
  std::array<char, 8> loss_bits;
  fmt::format_to_n(loss_bits.data(), loss_bits.size(), "{:08x}",
                   std::bit_cast<std::uint32_t>(static_cast<float>(step.loss)));
  member("step", step.step);
  member("loss", step.loss);
  member("loss_bits", std::string_view(loss_bits.data(), loss_bits.size()));
  member("grad_norm", step.grad_norm);
  member("lr", step.lr);
  member("step_ms", step.step_ms);
  member("tokens_per_s", static_cast<double>(step.targets) * 1e3 / step.step_ms);
  member("skipped", step.skipped);
  if (step.loss_spike) member("loss_spike", true);
  for (const Metric& metric : step.metrics) member(metric.name, metric.value);
  if (step.valid_loss) member("valid_loss", *step.valid_loss);
  if (step.valid_bits_per_byte) member("valid_bits_per_byte", *step.valid_bits_per_byte);
  for (const Metric& metric : step.valid_metrics) member("valid_", metric.name, metric.value);
}

void describe(const EvaluationRecord& evaluation, auto& member) {
  member("step", evaluation.step);
  member("evaluated", std::string_view(evaluation.source));
  member("targets", evaluation.targets);
  member("valid_loss", evaluation.loss);
  member("perplexity", evaluation.perplexity());
  if (const auto bits = evaluation.bits_per_byte()) member("bits_per_byte", *bits);
}

}  // namespace trireme::train
