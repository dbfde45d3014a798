#include <algorithm>
#include <chrono>
#include <cmath>

#include "trireme/core/error.h"

#include "launch/calibrate/measurements.h"
#include "runtime/core/seconds_since.h"

namespace trireme::calibrate {
namespace {

using Clock = std::chrono::steady_clock;

/// `share`: 0.5 for the median.
double quantile(std::vector<double>& values, double share) {
  const auto place =
      static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

double over_ranks(const Host& host, double value, Reduction reduction) {
  host.all_reduce({&value, 1, DType::f64}, reduction);
  return value;
}

}  // namespace

double mean_over_ranks(const Host& host, double value) {
  return over_ranks(host, value, Reduction::sum) / host.world().size();
}
double least_over_ranks(const Host& host, double value) {
  return over_ranks(host, value, Reduction::min);
}

double SharedTime::next(double weight, double passed) {
  const double left = std::max(0.0, seconds_ - passed);
  const double share = left * weight / weights_;
  weights_ -= weight;
  return share;
}

double Timer::operator()(const std::function<void(Index)>& call, double budget_s,
                         double least_repeats) {
  constexpr double least_s = 1e-3;  // of a repeat
  constexpr double most_repeats = 40, most_calls = 10'000;
  const Host& host = context_.host();
  Index calls = 0;
  const auto seconds = [&](Index count) {
    const Clock::time_point start = Clock::now();
    for (Index i = 0; i < count; ++i) call(calls++);
    context_.stream().synchronize();
    return seconds_since(start) / static_cast<double>(count);
  };
  host.world().barrier();
  seconds(1);  // chooses how to compute, and connects
  const double one = std::max(1e-9, over_ranks(host, seconds(1), Reduction::max));
  const double together = std::clamp(std::ceil(least_s / one), 1.0, most_calls);
  const double repeats = std::clamp(budget_s / (together * one), least_repeats, most_repeats);
  std::vector<double> times;
  host.world().barrier();
  for (Index i = 0; i < static_cast<Index>(repeats); ++i)
    times.push_back(seconds(static_cast<Index>(together)));
  const double width = quantile(times, 0.9) / quantile(times, 0.1) - 1;
  spreads_.push_back(mean_over_ranks(host, width) / 2);
  return mean_over_ranks(host, quantile(times, 0.5));
}

double Timer::spread() const {
  std::vector<double> all = spreads_;
  return all.empty() ? 0 : quantile(all, 0.5);
}

Line fit_line(const std::vector<Point>& points) {
  // Minimises the sum of ((seconds + slope * bytes) / measured - 1)^2.
  double oo = 0, ox = 0, xx = 0, o = 0, x = 0;
  for (const Point& point : points) {
    const double weight = 1 / point.seconds, bytes = point.bytes * weight;
    oo += weight * weight;
    ox += weight * bytes;
    xx += bytes * bytes;
    o += weight;
    x += bytes;
  }
  require(xx > 0, "no message of more than 0 bytes was timed");
  const double determinant = oo * xx - ox * ox;
  double seconds = determinant > 0 ? (o * xx - x * ox) / determinant : 0;
  double slope = determinant > 0 ? (oo * x - ox * o) / determinant : x / xx;
  if (seconds < 0) {
    seconds = 0;
    slope = x / xx;
  }
  if (slope <= 0) {  // all took equally long: what the longest one says
    const Point& longest =
        *std::max_element(points.begin(), points.end(),
                          [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
    slope = longest.seconds / longest.bytes;
  }
  return {seconds, 1 / slope};
}

}  // namespace trireme::calibrate
