// Frequencies, also those for longer sequences. "Periods": how often a pair turns in the original
// positions.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "trireme/nn/rotary.h"

namespace trireme {
namespace {

double periods(double frequency, const RotaryScaling& s) {
  return static_cast<double>(s.original_positions) * frequency / (2 * std::numbers::pi);
}

double llama3(double frequency, const RotaryScaling& s) {
  const double low = s.low_frequency_factor, high = s.high_frequency_factor;
  const double kept = std::clamp((periods(frequency, s) - low) / (high - low), 0.0, 1.0);
  return frequency * (kept + (1 - kept) / static_cast<double>(s.factor));
}

/// The pair that turns `turns` times, as a number between pairs.
double pair_of(double turns, Index head_dim, double theta, const RotaryScaling& s) {
  return static_cast<double>(head_dim) *
         std::log(static_cast<double>(s.original_positions) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

/// Which share of pair j's frequency is divided: 0 below the first pair of the ramp, 1 above its
/// last. Both are whole numbers, as in the authors' code, unless `truncate` is false.
class Ramp {
 public:
  Ramp(Index head_dim, double theta, const RotaryScaling& s)
      : first_(pair_of(s.beta_fast, head_dim, theta, s)),
        last_(pair_of(s.beta_slow, head_dim, theta, s)) {
    if (s.truncate) {
      first_ = std::floor(first_);
      last_ = std::ceil(last_);
    }
    first_ = std::max(first_, 0.0);
    last_ = std::min(last_, static_cast<double>(head_dim - 1));
    if (first_ == last_) last_ += 0.001;
  }
  double divided(std::size_t j) const {
    return std::clamp((static_cast<double>(j) - first_) / (last_ - first_), 0.0, 1.0);
  }

 private:
  double first_, last_;
};

}  // namespace

const char* name(RotaryScalingKind kind) {
  switch (kind) {
    case RotaryScalingKind::none:
      return "default";
    case RotaryScalingKind::linear:
      return "linear";
    case RotaryScalingKind::llama3:
      return "llama3";
    case RotaryScalingKind::yarn:
      return "yarn";
  }
  return "";
}

std::vector<double> rotary_frequencies(Index head_dim, float theta) {
  require(head_dim > 0 && head_dim % 2 == 0 && theta > 0,
          "rotary frequencies need an even head size and a positive base, not ", head_dim, " and ",
          theta);
  std::vector<double> frequencies;
  for (Index j = 0; j < head_dim / 2; ++j)
    frequencies.push_back(std::pow(static_cast<double>(theta),
                                   -2.0 * static_cast<double>(j) / static_cast<double>(head_dim)));
  return frequencies;
}

std::vector<double> rotary_frequencies(Index head_dim, float theta, const RotaryScaling& scaling) {
  std::vector<double> all = rotary_frequencies(head_dim, theta);
  const double factor = scaling.factor;
  switch (scaling.kind) {
    case RotaryScalingKind::none:
      break;
    case RotaryScalingKind::linear:
      for (double& f : all) f /= factor;
      break;
    case RotaryScalingKind::llama3:
      for (double& f : all) f = llama3(f, scaling);
      break;
    case RotaryScalingKind::yarn: {
      require(theta > 1, "yarn needs a rotary base above 1, not ", theta);
      const Ramp ramp(head_dim, theta, scaling);
      for (std::size_t j = 0; j < all.size(); ++j)
        all[j] *= 1 - ramp.divided(j) + ramp.divided(j) / factor;
      break;
    }
  }
  return all;
}

double rotary_amplitude(const RotaryScaling& scaling) {
  switch (scaling.kind) {
    case RotaryScalingKind::none:
    case RotaryScalingKind::linear:
    case RotaryScalingKind::llama3:
      return 1;
    case RotaryScalingKind::yarn:
      if (scaling.attention_factor > 0) return scaling.attention_factor;
      return scaling.factor > 1 ? 0.1 * std::log(static_cast<double>(scaling.factor)) + 1 : 1;
  }
  throw Error("no such kind of rotary scaling");
}

}  // namespace trireme
