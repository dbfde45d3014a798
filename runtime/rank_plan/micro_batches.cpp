#include "trireme/rank_plan/micro_batches.h"

#include <numeric>

#include "trireme/core/error.h"

namespace trireme {
namespace {

void check(const DataShares& shares, Index data_size) {
  require(shares.empty() || static_cast<Index>(shares.size()) == data_size,
          "--data-parallel-shares ", describe(shares), " are ", shares.size(),
          shares.size() == 1 ? " share" : " shares", " for ", data_size,
          data_size == 1 ? " data rank" : " data ranks", "; give one share for each data rank");
  for (const Index share : shares)
    require(share >= 1, "--data-parallel-shares ", describe(shares),
            ": each share has to be a whole number >= 1, not ", share);
}

}  // namespace

Index sum_of_shares(const DataShares& shares, Index data_size) {
  return shares.empty() ? data_size : std::accumulate(shares.begin(), shares.end(), Index{0});
}

MicroBatchRange micro_batches_of(Index all, const DataShares& shares, Index data_size,
                                 Index data_rank) {
  check(shares, data_size);
  const Index sum = sum_of_shares(shares, data_size), of_one = all / sum;
  if (shares.empty()) return {data_rank * of_one, of_one};
  require(all % sum == 0, all, " micro-batches of a step do not divide by the ", sum,
          " shares of --data-parallel-shares ", describe(shares),
          ": --global-batch-size has to be a multiple of ", sum, " x --micro-batch-size");
  const auto mine = shares.begin() + data_rank;
  return {std::accumulate(shares.begin(), mine, Index{0}) * of_one, *mine * of_one};
}

std::string describe(const DataShares& shares) {
  std::string text;
  for (const Index share : shares) text += str(text.empty() ? "" : ",", share);
  return text;
}

}  // namespace trireme
