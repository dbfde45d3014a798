// --instruction-set.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/options/options.h"

namespace trireme {

/// Sets TRIREME_INSTRUCTION_SET of this process to --instruction-set, if given: every CPU device
/// that is opened from now on, and oneDNN, use it. A set that is not available is a problem; until
/// the ranks stop because of it, they use portable code.
void set_instruction_set(const CommandLine& command, const Options& options, Problems& problems);

}  // namespace trireme
