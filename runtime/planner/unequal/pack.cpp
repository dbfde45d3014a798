#include "runtime/planner/unequal/pack.h"

#include <algorithm>
#include <limits>

namespace trireme::planner {
namespace {

/// Of more replicas than these only some numbers are tried.
constexpr int most_numbers = 16;
constexpr int most_visits = 20'000;

class Packing {
 public:
  Packing(const std::vector<Mix>& mixes, std::vector<int> left, const std::vector<double>& ideal,
          std::size_t most)
      : mixes_(mixes), left_(std::move(left)), ideal_(ideal), most_(most) {}

  std::vector<std::vector<int>> run() {
    counts_.assign(mixes_.size(), 0);
    visit(0, 0);
    std::vector<std::vector<int>> all;
    for (const auto& [rate, counts] : found_) all.push_back(counts);
    return all;
  }

 private:
  int most_of(const Mix& mix) const {
    int most = std::numeric_limits<int>::max();
    for (std::size_t type = 0; type < left_.size(); ++type)
      if (mix.uses[type] > 0) most = std::min(most, left_[type] / mix.uses[type]);
    return most;
  }

  double bound(double rate) const {
    for (std::size_t type = 0; type < left_.size(); ++type) rate += left_[type] * ideal_[type];
    return rate;
  }

  void take(const Mix& mix, int count) {
    for (std::size_t type = 0; type < left_.size(); ++type) left_[type] -= count * mix.uses[type];
  }

  void visit(std::size_t next, double rate) {
    if (++visits_ > most_visits) return;
    if (found_.size() == most_ && bound(rate) <= found_.back().first) return;
    if (next == mixes_.size()) return keep(rate);
    const Mix& mix = mixes_[next];
    const int most = most_of(mix), step = std::max(1, most / most_numbers);
    for (int count = most; count >= 0; count -= count > 0 && count < step ? count : step) {
      counts_[next] = count;
      take(mix, count);
      visit(next + 1, rate + count * mix.rate);
      take(mix, -count);
    }
    counts_[next] = 0;
  }

  void keep(double rate) {
    if (rate <= 0) return;
    const auto place = std::find_if(found_.begin(), found_.end(),
                                    [&](const auto& known) { return known.first < rate; });
    found_.insert(place, {rate, counts_});
    if (found_.size() > most_) found_.pop_back();
  }

  const std::vector<Mix>& mixes_;
  std::vector<int> left_;
  const std::vector<double>& ideal_;
  const std::size_t most_;
  std::vector<int> counts_;
  std::vector<std::pair<double, std::vector<int>>> found_;  // highest rate first
  int visits_ = 0;
};

}  // namespace

std::vector<std::vector<int>> pack_mixes(const std::vector<Mix>& mixes,
                                         const std::vector<int>& available,
                                         const std::vector<double>& ideal, std::size_t most) {
  return Packing(mixes, available, ideal, most).run();
}

}  // namespace trireme::planner
