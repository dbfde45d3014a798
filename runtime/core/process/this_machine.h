// This machine: its name, and how much of its memory is free.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// Returns the kernel's host name: the same for all processes of a node. Throws: Error.
std::string host_name();

/// Returns the bytes that this process may still take, be it in a container: MemAvailable of
/// /proc/meminfo, or less where a control group of this process, or one above it, has a limit
/// (version 2, or the memory controller of version 1). Page cache of a group counts as free: the
/// kernel takes it back at the limit. `root`: that of the file system, without a slash at its end;
/// empty but in tests.
Index free_memory(const std::string& root = "");

}  // namespace trireme
