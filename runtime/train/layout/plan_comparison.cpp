#include "runtime/train/layout/plan_comparison.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "runtime/core/median.h"
#include "runtime/core/show_bytes.h"
#include "runtime/layouts/report/text.h"

namespace trireme::train {
namespace {

/// "5 % more", "12 % less", "as much".
std::string show_difference(double measured, double predicted) {
  const double percent = std::round(100 * (measured / predicted - 1));
  if (percent == 0) return "as predicted";
  return fmt::format("{:.0f} % {}", std::abs(percent), percent > 0 ? "more" : "less");
}

}  // namespace

void PlanComparison::add(const Context& context, double step_ms) {
  if (step_ms_.size() == steps) return;
  step_ms_.push_back(step_ms);
  if (step_ms_.size() < steps) return;
  Index bytes = context.device().kind() == DeviceKind::cpu ? resident_bytes() : 0;
  context.host().all_reduce({&bytes, 1, DType::i64}, Reduction::max);
  const double usual_ms = median_in(std::span(step_ms_).subspan(1));  // the first one also warms up
  context.log().info("plan: " + describe_comparison(predicted_, usual_ms * 1e-3, bytes));
}

std::string describe_comparison(const StepPrediction& predicted, double measured_seconds,
                                Index measured_bytes) {
  std::string text =
      fmt::format("a step {} predicted, {} measured (median of steps 2 to {} of this job): {}",
                  layouts::show_seconds(predicted.seconds), layouts::show_seconds(measured_seconds),
                  PlanComparison::steps, show_difference(measured_seconds, predicted.seconds));
  if (measured_bytes > 0)
    text += fmt::format(
        "; memory of the largest rank {} predicted, {} measured: {}", show_bytes(predicted.bytes),
        show_bytes(measured_bytes),
        show_difference(static_cast<double>(measured_bytes), static_cast<double>(predicted.bytes)));
  return text;
}

Index resident_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  Index bytes = 0;
  for (std::string line; std::getline(in, line);)
    for (const char* field : {"Pss_Anon:", "Pss_Shmem:"})
      if (line.starts_with(field)) {
        std::istringstream words(line.substr(std::string_view(field).size()));
        Index kib = 0;
        if (words >> kib) bytes += kib << 10;
      }
  return bytes;
}

}  // namespace trireme::train
