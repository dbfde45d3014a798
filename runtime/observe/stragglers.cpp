#include "runtime/observe/stragglers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "runtime/core/median.h"

namespace trireme::observe {
namespace {

/// What scores compare a value with.
class Scale {
 public:
  explicit Scale(std::span<const double> values) : middle_(median({values.begin(), values.end()})) {
    std::vector<double> deviations;
    deviations.reserve(values.size());
    for (const double value : values) deviations.push_back(std::abs(value - middle_));
    constexpr double mad_to_deviation = 1.4826, least = 0.01;
    deviation_ =
        std::max(mad_to_deviation * median(std::move(deviations)), least * std::abs(middle_));
  }
  RobustScore score(double value) const {
    if (middle_ == 0 || deviation_ == 0) return {.median = middle_};
    return {middle_, value / middle_, (value - middle_) / deviation_};
  }

 private:
  double middle_, deviation_;
};

/// The last `count` steps of which all have a time, ascending.
std::vector<Index> common_steps(const std::vector<const TimeSeries*>& series, int count) {
  std::map<Index, std::size_t> having;
  for (const TimeSeries* one : series)
    for (const auto& sample : one->samples) ++having[sample.step];
  std::vector<Index> steps;
  for (const auto& [step, times] : having)
    if (times == series.size()) steps.push_back(step);
  const auto excess = static_cast<std::ptrdiff_t>(steps.size()) - count;
  if (excess > 0) steps.erase(steps.begin(), steps.begin() + excess);
  return steps;
}

double seconds_of(const TimeSeries& series, Index step) {
  const auto found =
      std::find_if(series.samples.begin(), series.samples.end(),
                   [&](const TimeSeries::Sample& sample) { return sample.step == step; });
  return found->seconds;
}

/// Series of one kind.
std::vector<Slow> slow_of(const std::vector<const TimeSeries*>& series,
                          const std::vector<std::size_t>& indices, const SlowRule& rule) {
  const std::vector<Index> steps = common_steps(series, rule.steps);
  if (static_cast<int>(series.size()) < rule.series || static_cast<int>(steps.size()) < rule.steps)
    return {};
  std::vector<int> slow_steps(series.size());
  std::vector<std::vector<double>> ratios(series.size());
  for (const Index step : steps) {
    std::vector<double> times;
    for (const TimeSeries* one : series) times.push_back(seconds_of(*one, step));
    const Scale scale(times);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const RobustScore score = scale.score(times[i]);
      ratios[i].push_back(score.ratio);
      if (score.ratio >= rule.ratio && score.z > rule.z) ++slow_steps[i];
    }
  }
  std::vector<Slow> slow;
  for (std::size_t i = 0; i < series.size(); ++i)
    if (slow_steps[i] >= rule.slow_steps) slow.push_back({indices[i], median(ratios[i])});
  return slow;
}

}  // namespace

RobustScore robust_score(double value, std::span<const double> values) {
  return Scale(values).score(value);
}

std::vector<Slow> find_slow(std::span<const TimeSeries> series, const SlowRule& rule) {
  std::map<std::string, std::vector<std::size_t>> by_kind;
  for (std::size_t i = 0; i < series.size(); ++i) by_kind[series[i].kind].push_back(i);
  std::vector<Slow> slow;
  for (const auto& [kind, indices] : by_kind) {
    std::vector<const TimeSeries*> same;
    for (const std::size_t i : indices) same.push_back(&series[i]);
    const std::vector<Slow> found = slow_of(same, indices, rule);
    slow.insert(slow.end(), found.begin(), found.end());
  }
  std::sort(slow.begin(), slow.end(),
            [](const Slow& a, const Slow& b) { return a.index < b.index; });
  return slow;
}

Stragglers find_stragglers(std::span<const RankSeries> ranks, const SlowRule& rule) {
  std::vector<TimeSeries> series;
  std::map<std::string, SlowNode> nodes;
  for (const RankSeries& rank : ranks) {
    series.push_back(rank.compute);
    ++nodes.try_emplace(rank.host, SlowNode{rank.host, 0, 0}).first->second.ranks;
  }
  Stragglers found;
  for (const auto& [index, ratio] : find_slow(series, rule)) {
    found.ranks.push_back({ranks[index].rank, ranks[index].host, ratio});
    ++nodes.at(ranks[index].host).slow_ranks;
  }
  for (const auto& [host, node] : nodes)
    if (node.ranks >= 2 && 2 * node.slow_ranks > node.ranks) found.nodes.push_back(node);
  return found;
}

}  // namespace trireme::observe
