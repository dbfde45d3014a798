// Options that are legal but have no effect in the layout of this job.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/options/options.h"

namespace trireme {

/// "--sequence-parallel (tensor parallel size 1), ...": the given options without effect on `ranks`
/// ranks; "" when there are none.
std::string idle_options(const CommandLine& command, const Options& options, Index ranks);

}  // namespace trireme
