// Times what all ranks do at the same moment, as they do in training: they share memory, power and
// links.
#pragma once

#include <functional>
#include <vector>

#include "trireme/job/run.h"

namespace trireme::calibrate {

class Timer {
 public:
  explicit Timer(const Context& context) : context_(context) {}

  /// Collective. Seconds of a call: the median of the repeats of a rank, averaged over ranks. All
  /// ranks call equally often, for about `budget_s`, at least `least_repeats` times; `call` gets
  /// the number of the call.
  double operator()(const std::function<void(Index)>& call, double budget_s,
                    double least_repeats = 5);
  /// Half the width of the error bar: of p90/p10 - 1 of the repeats, the median of all that was
  /// timed.
  double spread() const;

 private:
  const Context& context_;
  std::vector<double> spreads_;
};

/// The time that there is for all parts of a measurement. What a part takes more or less than its
/// share, those behind it have less or more.
class SharedTime {
 public:
  /// `weights`: of all parts together.
  SharedTime(double seconds, double weights) : seconds_(seconds), weights_(weights) {}

  /// Seconds of the next part, of this weight; `passed`: since the first one began.
  double next(double weight, double passed);

 private:
  double seconds_, weights_;
};

/// Collective.
double mean_over_ranks(const Host& host, double value);
double least_over_ranks(const Host& host, double value);

/// Time for so many bytes: seconds + bytes / bytes_per_s.
struct Line {
  double seconds = 0, bytes_per_s = 0;
};
struct Point {
  double bytes = 0, seconds = 0;
};
/// The line with the least relative errors. Needs a point of more than 0 bytes.
Line fit_line(const std::vector<Point>& points);

}  // namespace trireme::calibrate
