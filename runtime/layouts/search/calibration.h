// Whether a calibration was made on what is planned for.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "runtime/layouts/search/cluster.h"

namespace trireme::layouts {

/// What a calibration differs in from the cluster, and a CPU's from this machine: a line each.
/// `cpu`: the name of this machine's CPU, as in profiles.
std::vector<std::string> calibration_doubts(const GpuGroup& group, const std::string& cpu);
/// "CPU AMD EPYC 7B13".
std::string name_of_this_cpu();

}  // namespace trireme::layouts
