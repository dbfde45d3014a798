// How much memory of the host this process may still take: what the kernel has, or what a container
// leaves of it.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// Bytes: MemAvailable of /proc/meminfo, or less where a control group of this process, or one
/// above it, has a limit (version 2, or the memory controller of version 1). Page cache of a group
/// counts as free: the kernel takes it back at the limit. `root`: of the file system, without a
/// slash at its end; empty but in tests.
Index free_memory(const std::string& root = "");

}  // namespace trireme
