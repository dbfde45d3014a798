// Pace: how long the steps and the saves of an attempt take, as the supervisor sees them.
#pragma once

#include <deque>

#include "trireme/core/dtype.h"

namespace trireme::supervisor {

class Pace {
 public:
  /// `now`: when its line of metrics was seen.
  void step(Index number, double seconds, double now);
  /// A step that this attempt has done is on disk: from its end until now it was saved.
  void durable(Index number, double now);

  double mean_step_s() const { return steps_ > 0 ? sum_s_ / static_cast<double>(steps_) : 0; }
  /// Of the last 20; 0: none.
  double longest_step_s() const;
  /// The longest one; 0: none was seen.
  double save_s() const { return save_s_; }
  /// Saves that were seen, and the mean number of steps between two; 0: fewer than two were.
  Index saves() const { return saves_; }
  double save_interval() const;

 private:
  struct Done {
    Index number;
    double at;
  };
  std::deque<double> recent_;
  std::deque<Done> open_;  // steps after the newest durable one, the last few thousand
  Index steps_ = 0, saves_ = 0, first_saved_ = 0, last_saved_ = 0;
  double sum_s_ = 0, save_s_ = 0;
};

/// From the request to stop to the end by force: three saves and two steps, at least 20 s. 10 min
/// where either has not been measured.
double measured_grace_s(double save_s, double step_s);

}  // namespace trireme::supervisor
