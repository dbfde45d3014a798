// What processes that died have left: core files, and counts of the kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"

#include "launch/supervisor/machine/run_directory.h"

namespace trireme::supervisor {

/// Returns whether a file is the core of a process that had this "NAME=VALUE" in its environment
/// when it began. One that was cut off, or holds no stack, is not known to be.
bool is_core_of(const std::string& path, const std::string& variable);

/// Moves such core files of this user that were written in `from` since a time (seconds since 1970)
/// to the folder of an attempt, and keeps those of two attempts. Returns a line for each that stays
/// where it is, as on another file system: a core may be as large as the memory of its process.
std::vector<std::string> keep_cores(const std::string& from, Index since,
                                    const std::string& variable, const Paths& paths, Index attempt);

/// Processes that the kernel ended for lack of memory, as far as a normal user can see them.
struct OomKills {
  std::optional<Index> of_group;    // those in the control group of this process
  std::optional<Index> of_machine;  // those of the whole machine
};
/// Counts those so far. `root`: that of the file system; tests give another.
OomKills count_oom_kills(const std::string& root = "");

/// Returns whether the kernel counts them here.
inline bool counts(const OomKills& kills) { return kills.of_group || kills.of_machine; }

/// Returns a sentence on what came between two counts; empty: nothing. Where the control group
/// counts, the rest of the machine does not.
std::string new_oom_kills(const OomKills& before, const OomKills& after);

}  // namespace trireme::supervisor
