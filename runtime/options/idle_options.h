// Options that are legal, and that only the layout of this job leaves without effect.
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/options/options.h"

namespace trireme {

/// "--sequence-parallel (tensor parallel size 1), ...": what was given and is idle on `ranks`
/// ranks; "" when nothing is.
std::string idle_options(const CommandLine& command, const Options& options, Index ranks);

}  // namespace trireme
