// Links between nodes: latency, bandwidth, and how far clocks are apart.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/host.h"

#include "launch/preflight/report.h"

namespace trireme::preflight {

/// Collective; one rank a node, `hosts` by rank. In log2 N rounds every node is measured with as
/// many others, one at a time. Returns the pairs whose first node this is. `bytes`: of the messages
/// for bandwidth.
std::vector<Pair> measure_pairs(const Host& host, const std::vector<std::string>& hosts,
                                Index bytes);
/// Collective. These pairs once more, and each end of them with another node.
std::vector<Pair> measure_again(const Host& host, const std::vector<std::string>& hosts,
                                const std::set<std::pair<std::string, std::string>>& links,
                                Index bytes);

/// Collective. Seconds by which the clock of each rank is ahead of that of rank 0; on rank 0.
std::vector<double> clock_offsets(const Host& host);

}  // namespace trireme::preflight
