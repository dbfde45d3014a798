// LossSpikes: whether the loss has left its usual range: above the median of the last 100 finite
// losses by more than 8 times their median absolute deviation, 5 steps in a row. It only reports:
// going back is the user's decision.
#pragma once

#include <array>
#include <cstddef>

#include "trireme/core/dtype.h"

namespace trireme::train {

class LossSpikes {
 public:
  static constexpr std::size_t window = 100, least = 20;  // losses that are compared with
  static constexpr Index steps = 5;                       // steps in a row
  static constexpr double deviations = 8;
  static constexpr double least_share = 0.01;  // the least deviation, as a share of the median

  /// Takes the loss of the next step. Returns true at the step that completes a spike: once for
  /// each.
  bool add(double loss);

 private:
  bool above(double loss) const;

  std::array<double, window> losses_{};  // a ring
  std::size_t count_ = 0, next_ = 0;
  Index in_row_ = 0;
};

}  // namespace trireme::train
