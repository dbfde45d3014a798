// What must be the same on all ranks, compared by hashes: ranks that were started with different
// options, traced different models or read different data would hang, or silently train wrong.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/job/run.h"

namespace trireme {

/// One fact that must be the same on all ranks.
struct RankFact {
  std::string name, value;
  std::string note = {};  // shown with the value and not compared: the file that it speaks of
};

/// Collective. A sentence for each of the first `most` facts that differ, with values and ranks;
/// the same sentences on all ranks, none when all have the same facts in the same order. That case
/// costs one all-reduce of 16 bytes; otherwise rank 0's hashes are compared with those of all
/// ranks, and text is gathered only for the facts that are reported.
std::vector<std::string> differences_between_ranks(const Host& host,
                                                   const std::vector<RankFact>& mine,
                                                   std::size_t most);

/// Collective. Throws: ConfigurationError on all ranks, with the first `most` facts that differ.
void require_same(const Host& host, const std::vector<RankFact>& mine, std::size_t most);

/// "rank 3", "ranks 0-3", "ranks 0-3, 7": of ranks in ascending order; many are cut short.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace trireme
