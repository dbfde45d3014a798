// Starts the process that reports the status pages of this node (PageAgent).
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme::observe {

/// `program report-pages directory`, in a session of its own, which outlives this process. Throws:
/// Error when there is no such program. Call it before this process has other threads.
void start_agent(const std::string& program, const std::string& directory);

}  // namespace trireme::observe
