// Signs of GPUs that ranks have found while they trained (docs/gpu/health.md).
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/records/nodes.h"
#include "runtime/observe/gpu_health/health_rules.h"

namespace trireme::supervisor {

struct GpuSign {
  std::string host;  // as the list of hosts names it; empty: this machine, which no list names
  observe::HealthAction action = observe::HealthAction::report;
  std::string text;
};

/// What the ranks of an attempt have written into `folder`. `hosts`: of the attempt, which has
/// `ranks`. A host that calls itself otherwise than the list does is found by its rank.
std::vector<GpuSign> read_gpu_signs(const std::string& folder, const std::vector<Host>& hosts,
                                    Index ranks);

bool has_sign(const std::vector<GpuSign>& signs, observe::HealthAction action);
/// 3 points for what is fatal, at once in quarantine; 0 for the rest, which is only shown. A host
/// that is named twice for one thing is blamed once.
std::vector<Blame> blame_for(const std::vector<GpuSign>& signs);

}  // namespace trireme::supervisor
