// How the data ranks divide the micro-batches of a step.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

/// Numbers relative to each other, one for each data rank; empty: equal ones.
using DataShares = std::vector<Index>;

/// Consecutive micro-batches of a global batch.
struct MicroBatchRange {
  Index first = 0, count = 0;
};

/// The sum of the shares: micro-batches of a step are a multiple of it.
Index sum_of_shares(const DataShares& shares, Index data_size);

/// Those of `all` that a data rank runs. Whatever the shares, the data ranks together run each one
/// once, in one order. Throws: Error when the shares do not fit the data ranks or `all`.
MicroBatchRange micro_batches_of(Index all, const DataShares& shares, Index data_size,
                                 Index data_rank);

/// "3,2,1"
std::string describe(const DataShares& shares);

}  // namespace trireme
