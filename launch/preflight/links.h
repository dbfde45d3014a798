// Links between nodes: latency, bandwidth, and how far clocks are apart.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/host.h"

#include "launch/preflight/report.h"

namespace trireme::preflight {

/// Ranks a and b of `host` call it, named `names` by rank; a < b. `bytes`: of the messages for
/// bandwidth; fewer where the link would take more than a second.
Pair measure_link(const Host& host, const std::vector<std::string>& names, int a, int b,
                  Index bytes);

/// Collective. Seconds by which the clock of each rank is ahead of that of rank 0; on rank 0.
std::vector<double> clock_offsets(const Host& host);

// NCCL between GPUs: how fast they reduce in each node, along each rail, and all together.

/// Collective. `gpus`: the mesh of NCCL, whose data axis are nodes and whose tensor axis are the
/// GPUs of one; `nodes`: their names. Returns the groups on all ranks. A group of one GPU is none.
/// Throws: Error on all ranks when sums are wrong.
std::vector<Group> measure_groups(const Host& host, Mesh& gpus, Stream& stream,
                                  const std::vector<std::string>& nodes);

}  // namespace trireme::preflight
