// An earlier report to compare with: whether it is of the same hosts, machines and program.
#pragma once

#include <string>
#include <vector>

#include "launch/preflight/judge.h"

namespace trireme::preflight {

/// `hosts`: that will be measured. Throws: Error with the reason only, when the file is no report
/// of a preflight, or of none of these hosts.
Report read_baseline(const std::string& path, const std::vector<std::string>& hosts);

/// Removes from `before` nodes and GPUs that are now of another kind, with the links of such nodes.
/// Returns a warning for each of them, for each node that `before` lacks, and for another version
/// of trireme. `name`: of the file.
std::vector<Finding> keep_comparable(const Report& now, Report& before, const std::string& name);

}  // namespace trireme::preflight
