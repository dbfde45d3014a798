// The time line of the run in --save (store/tiers/time_line.h), on all ranks.
#pragma once

#include <string>

#include "trireme/job/run.h"

#include "runtime/store/tiers/time_line.h"

namespace trireme::checkpoint {

/// Collective. What rank 0 finds; without parts where there is none, or none that can be read.
store::TimeLine agree_on_time_line(const Context& context);

/// Collective. Job `job` starts from `start`, and `resumes` if that is a state of this run. A job
/// that keeps no snapshots only continues a time line that is there. Throws: JobError on all ranks.
void begin_time_line(const Context& context, const std::string& job, const store::StartOfJob& start,
                     bool resumes);

}  // namespace trireme::checkpoint
