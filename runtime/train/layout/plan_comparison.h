// PlanComparison: what a planner said of a step beside what was measured, in one line of the log.
//
// Private to train.
#pragma once

#include <vector>

#include "trireme/train/trainer.h"

namespace trireme::train {

class PlanComparison {
 public:
  static constexpr std::size_t steps = 20;

  explicit PlanComparison(const StepPrediction& predicted) : predicted_(predicted) {
    step_ms_.reserve(steps);
  }
  /// Collective. After each step of this job; logs the line after the last of `steps`.
  void add(const Context& context, double step_ms);

 private:
  StepPrediction predicted_;
  std::vector<double> step_ms_;
};

/// "a step 12.0 ms predicted, 12.6 ms measured (median of steps 2 to 20 of this job): 5 % longer;
/// memory ...". `measured_bytes`: 0: not known.
std::string describe_comparison(const StepPrediction& predicted, double measured_seconds,
                                Index measured_bytes);

/// Memory of this process that no file holds, private and shared (its share of it): what the pages
/// of /proc say; 0 where they say nothing.
Index resident_bytes();

}  // namespace trireme::train
