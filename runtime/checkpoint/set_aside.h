// What a job says of checkpoints in its --save directory that are not part of its run.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/options/checkpoint_options.h"

namespace trireme::checkpoint {

/// One line. `names`: those that were set aside, the newest first; the run begins from `step`.
std::string describe_set_aside(const CheckpointOptions& options,
                               const std::vector<std::string>& names, Index step);

}  // namespace trireme::checkpoint
