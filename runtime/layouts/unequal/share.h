// share: divides items among workers of unequal speed, so that the last one is done as early as
// possible. Items are micro-batches of replicas, or blocks of the stages of a pipeline. And
// share_slices: the same for what may be cut anywhere, the optimizer.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::layouts {

/// Workers that are alike. One takes first + n * each seconds for n items, and has from 1 to `most`
/// of them.
struct Workers {
  int count = 1;
  double first = 0, each = 0;  // seconds
  Index most = 0;
};

/// How workers that are alike share items: `more` of them have each + 1 items, the others `each`.
struct Share {
  Index each = 0;
  int more = 0;

  Index most() const { return more > 0 ? each + 1 : each; }
};

/// The workers that have most.
double seconds_of(const Workers& workers, const Share& share);

/// A share for each kind of workers; nothing: there are fewer items than workers, or more than all
/// may have. No other division ends earlier: the least T with sum of floor((T - first) / each) >=
/// items, found by bisection, in time that grows with the kinds only, not with the workers.
std::optional<std::vector<Share>> share(const std::vector<Workers>& kinds, Index items);

/// Data ranks that are alike, of which each would take `seconds` to update all, and has memory for
/// a part of at most `most` of it.
struct Updaters {
  int count = 1;
  double seconds = 0;
  double most = 1;
};

/// The longest update of any, where all have equal parts.
double seconds_of_equal_slices(const std::vector<Updaters>& kinds);
/// A part for each kind, which together with their numbers add up to 1. No other parts end earlier.
/// Nothing: all have too little memory together.
std::optional<std::vector<double>> share_slices(const std::vector<Updaters>& kinds);
/// Small whole numbers in proportion to these parts, but for 3 % of each.
std::vector<Index> whole_shares(const std::vector<double>& parts);

}  // namespace trireme::layouts
