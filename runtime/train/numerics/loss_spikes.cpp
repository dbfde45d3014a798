#include "runtime/train/numerics/loss_spikes.h"

#include <algorithm>
#include <cmath>

#include "runtime/core/median.h"

namespace trireme::train {
bool LossSpikes::above(double loss) const {
  if (count_ < least) return false;
  auto copy = losses_;
  const std::span<double> values = std::span(copy).first(count_);
  const double middle = median_in(values);
  for (double& each : values) each = std::fabs(each - middle);
  // A loss that hardly moves has a deviation of nearly nothing.
  const double deviation = std::max(median_in(values), least_share * std::fabs(middle));
  return loss > middle + deviations * deviation;
}

bool LossSpikes::add(double loss) {
  if (std::isnan(loss)) return false;  // of a step that is skipped
  in_row_ = above(loss) ? in_row_ + 1 : 0;
  if (std::isfinite(loss)) {
    losses_[next_] = loss;
    next_ = (next_ + 1) % window;
    count_ = std::min(count_ + 1, window);
  }
  return in_row_ == steps;
}

}  // namespace trireme::train
