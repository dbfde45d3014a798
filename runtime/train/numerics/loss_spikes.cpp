#include "runtime/train/numerics/loss_spikes.h"

#include <algorithm>
#include <cmath>

namespace trireme::train {
namespace {

using Losses = std::array<double, LossSpikes::window>;

/// The upper one of two in the middle. Changes the order.
double median(Losses& values, std::size_t count) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(values.begin(), middle, values.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

}  // namespace

bool LossSpikes::above(double loss) const {
  if (count_ < least) return false;
  Losses values = losses_;
  const double middle = median(values, count_);
  std::transform(losses_.begin(), losses_.begin() + static_cast<std::ptrdiff_t>(count_),
                 values.begin(), [=](double each) { return std::fabs(each - middle); });
  // A loss that hardly moves has a deviation of nearly nothing.
  const double deviation = std::max(median(values, count_), least_share * std::fabs(middle));
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
