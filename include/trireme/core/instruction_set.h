// The instruction sets that the kernels of a CPU are compiled for.
#pragma once

namespace trireme {

/// Vector code a CPU device uses. `best` is what the environment variable TRIREME_INSTRUCTION_SET
/// names (oneDNN then uses no wider instructions either), else the widest that this machine
/// supports.
enum class InstructionSet { best, portable, avx2, avx512 };
const char* name(InstructionSet set);

}  // namespace trireme
