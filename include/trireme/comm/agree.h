// Agree, then act (invariant 5 of docs/concepts/architecture.md): control among the hosts of all
// ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/host.h"

namespace trireme {

/// Collective. Runs `work` on every rank; when it threw on any, throws on all an Error with the
/// message of the lowest failing rank ("rank 3: ..."). Otherwise returns.
void agree(const Host& host, const std::function<void()>& work);

/// Collective. The strings of all ranks in rank order, on every rank.
std::vector<std::string> gather_strings(const Host& host, const std::string& mine);

/// Collective. The same of lists, which may have different lengths. No string may contain the
/// character 0x1e.
std::vector<std::vector<std::string>> gather_lists(const Host& host,
                                                   const std::vector<std::string>& mine);

}  // namespace trireme
