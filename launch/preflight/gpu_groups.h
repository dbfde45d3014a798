// NCCL between GPUs: how fast they reduce in each node, along each rail, and all together.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/host.h"

#include "launch/preflight/report.h"

namespace trireme::preflight {

/// Collective. `gpus`: the mesh of NCCL, whose data axis are nodes and whose tensor axis are the
/// GPUs of one; `nodes`: their names. Returns the groups on all ranks. A group of one GPU is none.
/// Throws: Error on all ranks when sums are wrong.
std::vector<Group> measure_groups(const Host& host, Mesh& gpus, Stream& stream,
                                  const std::vector<std::string>& nodes);

}  // namespace trireme::preflight
