// Processes that the kernel ended for lack of memory, as far as a normal user can see them.
#pragma once

#include <optional>
#include <string>

#include "trireme/core/dtype.h"

namespace trireme::supervisor {

struct OomKills {
  std::optional<Index> of_group;    // of processes in the control group of this one
  std::optional<Index> of_machine;  // of all processes
};
/// So far. `root`: of the file system; tests give another.
OomKills count_oom_kills(const std::string& root = "");

/// Whether any are counted here.
inline bool counts(const OomKills& kills) { return kills.of_group || kills.of_machine; }

/// A sentence on what came between two counts; empty: nothing. Where the control group counts, the
/// rest of the machine does not.
std::string new_oom_kills(const OomKills& before, const OomKills& after);

}  // namespace trireme::supervisor
