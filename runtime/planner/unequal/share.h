// share: divides items among workers of unequal speed, so that the last one is done as early as
// possible. Items are micro-batches of replicas, or blocks of the stages of a pipeline.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::planner {

/// Workers that are alike. One takes first + n * each seconds for n items, and has from 1 to `most`
/// of them.
struct Workers {
  int count = 1;
  double first = 0, each = 0;  // seconds
  Index most = 0;
};

/// Of workers that are alike: `more` of them have each + 1 items, the others `each`.
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

}  // namespace trireme::planner
