// --instruction-set.
// Not installed; modules above may include it.
#pragma once

#include "trireme/options/options.h"

namespace trireme {

/// Makes --instruction-set, where it is given, what TRIREME_INSTRUCTION_SET names in this process:
/// every CPU device that is opened from now on, and oneDNN, keep to it. A set that cannot be had is
/// a problem; until the ranks stop for it, they use portable code.
void set_instruction_set(const CommandLine& command, const Options& options, Problems& problems);

}  // namespace trireme
