// Core files that processes of a run have left.
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/machine/run_directory.h"

namespace trireme::supervisor {

/// Whether a file is the core of a process that had this "NAME=VALUE" in its environment when it
/// began. One that was cut off, or holds no stack, is not known to be.
bool is_core_of(const std::string& path, const std::string& variable);

/// Moves such core files of this user that were written in `from` since a time (seconds since 1970)
/// to the folder of an attempt, and keeps those of two attempts. Returns a line for each that stays
/// where it is, as on another file system: a core may be as large as the memory of its process.
std::vector<std::string> keep_cores(const std::string& from, Index since,
                                    const std::string& variable, const Paths& paths, Index attempt);

}  // namespace trireme::supervisor
