#include "runtime/train/sinks/reporter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/core/process/terminal.h"
#include "runtime/core/show_bytes.h"
#include "runtime/train/sinks/fixed_line.h"

namespace trireme::train {
namespace {

/// A NaN has a sign, which says nothing.
double without_sign_of_nan(double x) { return std::isnan(x) ? std::abs(x) : x; }

const char* why_skipped(const StepRecord& m) {
  return std::isfinite(m.loss) && std::isinf(m.grad_norm)
             ? "the gradient norm overflowed, though the loss is finite"
             : "gradients are not finite";
}

struct HoursLeft {
  long long hours, minutes, seconds;
  explicit HoursLeft(double s)
      : hours(static_cast<long long>(s) / 3600),
        minutes(static_cast<long long>(s) / 60 % 60),
        seconds(static_cast<long long>(s) % 60) {}
};

}  // namespace

std::string_view show_progress(std::span<char> line, int columns, Index step, Index steps,
                               double loss, double seconds_left) {
  const auto size = std::min(line.size(), static_cast<std::size_t>(std::max(columns - 1, 0)));
  std::array<char, 96> text;
  const HoursLeft left(seconds_left);
  const auto end =
      fmt::format_to_n(text.data(), text.size(), "{}/{}  loss {:.4f}  left {}:{:02}:{:02}", step,
                       steps, loss, left.hours, left.minutes, left.seconds);
  const auto words = std::min<std::size_t>(end.size, text.size());
  constexpr std::size_t around = 3, narrowest = 10, widest = 40;  // around: "[] "
  if (size < words + around + narrowest)
    return {line.data(), std::copy_n(text.data(), std::min(words, size), line.data())};
  const std::size_t width = std::min(size - words - around, widest);
  const auto filled = static_cast<std::size_t>(
      static_cast<double>(width) * static_cast<double>(step) / static_cast<double>(steps));
  return {line.data(), fmt::format_to_n(line.data(), size, "[{:=<{}}{: <{}}] {}", "", filled, "",
                                        width - filled, std::string_view(text.data(), words))
                           .out};
}

void Reporter::begin(const RunRecord& run) {
  run_ = run;
  log_.info(str("GEMM peak of all ranks together, ", name(run.compute), ": ",
                std::round(run.peak_flops_per_s / 1e8) / 10, " GFLOP/s; ",
                std::round(run.flops_per_step / 1e7) / 100, " GFLOP a step"));
  log_.line("#   step       loss  grad norm         lr    step   tokens  GEMM      left");
  log_.line("#                                            [ms]    [1/s]   [%] [h:mm:ss]");
}

void Reporter::take(const StepRecord& step) {
  ++interval_steps_;
  interval_ms_ += step.step_ms;
  interval_targets_ += step.targets;
  // The first step warms up caches: the estimate of the remaining time leaves it out.
  if (all_steps_ == 1) all_ms_ = 0;
  ++all_steps_;
  all_ms_ += step.step_ms;
  const bool last = step.step == run_.train_iters;
  if (step.step % log_interval_ == 0 || last || step.skipped || step.valid_loss)
    print_line(step);
  else
    print_progress(step);
}

double Reporter::seconds_left(Index step) const {
  const Index timed = all_steps_ > 1 ? all_steps_ - 1 : 1;
  return all_ms_ / 1e3 / static_cast<double>(timed) * static_cast<double>(run_.train_iters - step);
}

void Reporter::print_line(const StepRecord& m) {
  const double seconds = interval_ms_ / 1e3;
  const double rate = seconds > 0 ? static_cast<double>(interval_targets_) / seconds : 0;
  const double flops = static_cast<double>(interval_steps_) * run_.flops_per_step;
  const double share =
      run_.peak_flops_per_s > 0 && seconds > 0 ? flops / seconds / run_.peak_flops_per_s : 0;
  const HoursLeft left(seconds_left(m.step));
  FixedLine line;
  line.add("{:8} {:>10.6f} {:>10.4e} {:10.4e} {:7.1f} {:8.0f} {:5.1f} {:3}:{:02}:{:02}", m.step,
           without_sign_of_nan(m.loss), without_sign_of_nan(m.grad_norm), m.lr,
           interval_ms_ / static_cast<double>(interval_steps_), rate, 100 * share, left.hours,
           left.minutes, left.seconds);
  const auto add_metrics = [&line](std::string_view before, std::span<const Metric> metrics) {
    for (const Metric& metric : metrics)
      line.add("{}{} {:.6g}", before, metric.name, without_sign_of_nan(metric.value));
  };
  add_metrics("  ", m.metrics);
  if (m.skipped) line.add("  skipped: {}", why_skipped(m));
  if (m.valid_loss) line.add("  valid {:.6f}", without_sign_of_nan(*m.valid_loss));
  add_metrics(", ", m.valid_metrics);
  log_.line(line.text());
  interval_steps_ = interval_targets_ = 0;
  interval_ms_ = 0;
}

void Reporter::print_progress(const StepRecord& m) {
  progress_ms_ += m.step_ms;
  if (progress_ms_ < 100) return;  // ten a second are enough
  progress_ms_ = 0;
  const int columns = terminal_columns();
  if (columns <= 0) return;
  std::array<char, 128> line;
  log_.progress(show_progress(line, columns, m.step, run_.train_iters, without_sign_of_nan(m.loss),
                              seconds_left(m.step)));
}

void Reporter::take(const EvaluationRecord& evaluation) {
  const std::size_t files = evaluation.blended_files;
  log_.result(
      str(files > 0 ? str("the blend of ", files, " files by their weights") : evaluation.source,
          ": ", evaluation.describe(), ", over ", evaluation.targets, " targets"));
}

void Reporter::take(const SaveRecord& save) {
  if (!save.error.empty())
    return log_.warning(fmt::format(
        "step {} is not saved: {}; training continues, {}{}", save.step, save.error,
        save.step_before < 0 ? "without any checkpoint of this job"
                             : fmt::format("the newest checkpoint is step {}", save.step_before),
        save.failures > 1 ? fmt::format("; the last {} saves have failed", save.failures) : ""));
  const auto rate = [&](double ms) {
    return static_cast<double>(save.bytes) / std::max(ms, 1e-3) / 1e6;
  };
  std::string before = "the first of this job";
  if (save.after_that_s)
    before =
        fmt::format("last durable step {}, {:.1f} s older", save.step_before, *save.after_that_s);
  log_.info(fmt::format(
      "saved step {}: stall {:.1f} ms (copy {:.2f} GB/s), write {:.2f} GB/s, {} over {} rank{}, "
      "durable after {:.2f} s; {}",
      save.step, save.stall_ms, rate(save.copy_ms), rate(save.write_ms), show_bytes(save.bytes),
      save.ranks, save.ranks == 1 ? "" : "s", save.durable_after_s, before));
}

void Reporter::take(const NoteRecord& note) {
  switch (note.kind) {
    case NoteRecord::Kind::loss_spike:
      return log_.warning(note.text);
    case NoteRecord::Kind::stopped:
      return log_.info(note.text);
    case NoteRecord::Kind::diverged:
      return;  // run() prints the error
  }
}

}  // namespace trireme::train
