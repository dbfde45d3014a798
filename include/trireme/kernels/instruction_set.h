// The instruction sets that the kernels of a CPU are compiled for.
#pragma once

namespace trireme {

/// Vector code a CPU device uses. `best` is what the environment variable TRIREME_INSTRUCTION_SET
/// names (oneDNN then uses no wider instructions either), else the widest that this machine
/// supports.
enum class InstructionSet { best, portable, avx2, avx512 };
const char* name(InstructionSet set);
/// False when this machine cannot run it.
bool available(InstructionSet set);
/// What TRIREME_INSTRUCTION_SET names; `best` where it is not set. Throws: Error when it names no
/// set, or one that this machine cannot run.
InstructionSet instruction_set_of_environment();

}  // namespace trireme
