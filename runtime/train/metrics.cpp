#include "trireme/train/metrics.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace trireme {

std::optional<double> bits_per_byte(double loss, std::optional<double> bytes_per_target) {
  if (!bytes_per_target) return std::nullopt;
  return loss / (std::numbers::ln2 * *bytes_per_target);
}

double EvaluationMetrics::perplexity() const { return std::exp(loss); }
std::optional<double> EvaluationMetrics::bits_per_byte() const {
  return trireme::bits_per_byte(loss, bytes_per_target);
}
std::string EvaluationMetrics::describe() const {
  const std::optional<double> bits = bits_per_byte();
  return fmt::format("loss {:.7f}, perplexity {:.6g}{}", loss, perplexity(),
                     bits ? fmt::format(", {:.6g} bits per byte", *bits) : "");
}

}  // namespace trireme
