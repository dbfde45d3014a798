// pack_mixes: how many replicas of each mix of GPUs to make of a cluster.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::planner {

/// What a mix uses of each type, and how many micro-batches a second it runs.
struct Mix {
  std::vector<int> uses;
  double rate = 0;
};
/// Numbers of replicas of each mix that together use no more than there is: those with the highest
/// rates, best first, at most `most`. `ideal`: the rate that one of each type adds at best, which
/// bounds the enumeration.
std::vector<std::vector<int>> pack_mixes(const std::vector<Mix>& mixes,
                                         const std::vector<int>& available,
                                         const std::vector<double>& ideal, std::size_t most);

}  // namespace trireme::planner
