// Stragglers: ranks and nodes that are slower than others that do the same work, by statistics that
// few outliers do not shift.
//
// Not installed; modules above may include it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::observe {

/// How far one value lies from others of its kind.
struct RobustScore {
  double median = 0;
  double ratio = 1;  // value / median
  /// (value - median) / max(1.4826 MAD, 1 % of the median): in standard deviations, where the
  /// others are normally distributed.
  double z = 0;
};
/// `values` includes `value`.
RobustScore robust_score(double value, std::span<const double> values);

/// Times of one rank, by step.
struct TimeSeries {
  std::string kind;  // only series of one kind are compared: "stage 0, H100"
  struct Sample {
    Index step;
    double seconds;
  };
  std::vector<Sample> samples;  // steps ascending
};

struct SlowRule {
  double ratio = 1.33;
  double z = 6;
  int steps = 20, slow_steps = 16;  // slow in so many of the last steps that all have
  int series = 3;  // least number of series of one kind: of two, either may be the slow one
};

struct Slow {
  std::size_t index;  // index of the series
  double ratio;       // median over the last steps
};
/// Series that are slow by this rule, ascending.
std::vector<Slow> find_slow(std::span<const TimeSeries> series, const SlowRule& rule = {});

struct RankSeries {
  int rank;
  std::string host;
  TimeSeries compute;  // the own compute time of each step, without waits
};
struct SlowRank {
  int rank;
  std::string host;
  double ratio;
};
struct SlowNode {
  std::string host;
  int slow_ranks, ranks;
};
struct Stragglers {
  std::vector<SlowRank> ranks;
  std::vector<SlowNode> nodes;  // most of whose ranks are slow; of two ranks or more
};
Stragglers find_stragglers(std::span<const RankSeries> ranks, const SlowRule& rule = {});

}  // namespace trireme::observe
