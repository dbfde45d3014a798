// Which instruction sets this machine can run, and which one its environment names.
#pragma once

#include "trireme/core/instruction_set.h"

namespace trireme {

/// False when this machine cannot run it.
bool available(InstructionSet set);
/// What TRIREME_INSTRUCTION_SET names; `best` where it is not set. Throws: Error when it names no
/// set, or one that this machine cannot run.
InstructionSet instruction_set_of_environment();

}  // namespace trireme
