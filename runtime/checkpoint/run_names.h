// What this job is called in checkpoints and leases, and when they were made.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "runtime/store/lease/lease.h"

namespace trireme::checkpoint {

/// The time, UTC, in a format of fmt.
std::string utc_now(const char* format);

/// Unique among all jobs, on one host or several.
std::string new_run_id();

/// What a supervisor gives to the attempts of a run (trireme run). Throws: Error for a value that
/// no supervisor gives.
store::Lineage supervised_lineage();

}  // namespace trireme::checkpoint
