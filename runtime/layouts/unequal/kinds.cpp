#include "runtime/layouts/unequal/kinds.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/core/at.h"
#include "runtime/layouts/search/candidates.h"

namespace trireme::layouts {
namespace {

constexpr std::size_t most_mixes = 20;

/// The types of `uses` in that order of its stages in which a micro-batch leaves soonest.
std::optional<PipelineKind> best_order(std::vector<GpuType>& types, const std::vector<int>& uses,
                                       const Layout& layout, Index blocks) {
  std::vector<int> used;
  for (std::size_t type = 0; type < uses.size(); ++type)
    if (uses[type] > 0) used.push_back(static_cast<int>(type));
  std::optional<PipelineKind> best;
  double least = 0;
  do {
    auto kind = cut_pipeline(types, order_of(used, uses), layout, blocks);
    if (!kind) continue;
    const auto worker = worker_of(types, *kind, layout, 1);
    if (worker && (!best || worker->each < least)) best = std::move(kind), least = worker->each;
  } while (std::next_permutation(used.begin(), used.end()));
  return best;
}

/// Of all numbers of stages that divide what there is of each type, those that use it best.
class KindFinder {
 public:
  KindFinder(std::vector<GpuType>& types, const Supply& supply, const Layout& setting, Index blocks)
      : types_(types), supply_(supply), layout_(setting), blocks_(blocks) {}

  MixedKinds run(const LayoutPins& pins) {
    uses_.assign(types_.size(), 0);
    choose(0, pins);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.efficiency > b.efficiency; });
    if (found_.size() > most_mixes) found_.resize(most_mixes);
    MixedKinds all;
    for (Found& each : found_) {
      all.kinds.push_back(std::move(each.kind));
      all.mixes.push_back(std::move(each.mix));
    }
    return all;
  }

 private:
  struct Found {
    PipelineKind kind;
    Mix mix;
    double efficiency;  // of what its GPUs add at best
  };

  void choose(std::size_t type, const LayoutPins& pins) {
    if (type == uses_.size()) return take(pins);
    uses_[type] = 0;
    choose(type + 1, pins);
    for (const int stages :
         divisors_of(supply_.available[type], std::min<Index>(most_stages, blocks_))) {
      uses_[type] = stages;
      choose(type + 1, pins);
    }
  }

  void take(const LayoutPins& pins) {
    const int stages = std::accumulate(uses_.begin(), uses_.end(), 0);
    if (stages == 0 || stages > std::min<Index>(most_stages, blocks_)) return;
    if (pins.pipeline && *pins.pipeline != stages) return;
    layout_.pipeline = stages;
    layout_.data = std::numeric_limits<int>::max();
    double best = 0;
    for (std::size_t type = 0; type < uses_.size(); ++type) {
      if (uses_[type] == 0) continue;
      layout_.data = std::min(layout_.data, supply_.available[type] / uses_[type]);
      best += uses_[type] * supply_.ideal[type];
    }
    layout_.sharded = layout_.data > 1 && pins.sharded.value_or(1) == 1;
    auto kind = best_order(types_, uses_, layout_, blocks_);
    if (!kind) return;
    const double rate = 1 / worker_of(types_, *kind, layout_, 1)->each;
    found_.push_back({std::move(*kind), {uses_, rate}, rate / best});
  }

  std::vector<GpuType>& types_;
  const Supply& supply_;
  Layout layout_;
  const Index blocks_;
  std::vector<int> uses_;
  std::vector<Found> found_;
};

}  // namespace

/// Stages of each type in turn.
std::vector<int> order_of(const std::vector<int>& types, const std::vector<int>& stages) {
  std::vector<int> order;
  for (const int type : types) order.insert(order.end(), at(stages[at(type)]), type);
  return order;
}

std::optional<PipelineKind> cut_pipeline(std::vector<GpuType>& types, const std::vector<int>& order,
                                         const Layout& layout, Index blocks,
                                         const std::vector<Index>& limits) {
  const auto stages = static_cast<int>(order.size());
  std::vector<Workers> workers;
  for (int s = 0; s < stages; ++s) {
    workers.push_back(types[at(order[at(s)])].stage(layout, {s, stages}));
    if (!limits.empty()) workers.back().most = std::min(workers.back().most, limits[at(s)]);
  }
  const auto shares = share(workers, blocks);
  if (!shares) return std::nullopt;
  PipelineKind kind;
  kind.types = order;
  for (const Share& one : *shares) kind.blocks.push_back(static_cast<int>(one.most()));
  return kind;
}

std::optional<Workers> worker_of(std::vector<GpuType>& types, const PipelineKind& kind,
                                 const Layout& layout, Index micro_batches, bool updates) {
  double sum = 0, slowest = 0;
  for (int s = 0; s < kind.stages(); ++s) {
    const Workers stage = types[at(kind.types[at(s)])].stage(layout, {s, kind.stages(), updates});
    if (kind.blocks[at(s)] > stage.most) return std::nullopt;
    const double seconds = seconds_of(stage, {kind.blocks[at(s)], 0});
    sum += seconds;
    slowest = std::max(slowest, seconds);
  }
  return Workers{kind.count, sum - slowest, slowest, micro_batches};
}

double most_of_optimizer(std::vector<GpuType>& types, const PipelineKind& kind,
                         const Layout& layout) {
  double most = 1;
  for (int s = 0; s < kind.stages(); ++s)
    most = std::min(most, types[at(kind.types[at(s)])].most_of_optimizer(layout, {s, kind.stages()},
                                                                         kind.blocks[at(s)]));
  return most;
}

MixedKinds find_kinds(std::vector<GpuType>& types, const Supply& supply, const Layout& setting,
                      Index blocks, const LayoutPins& pins) {
  return KindFinder(types, supply, setting, blocks).run(pins);
}

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

}  // namespace trireme::layouts
