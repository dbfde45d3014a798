// Which vector code this machine can run, and which set the environment names.
#include <cstdlib>
#include <string_view>

#include "trireme/core/error.h"

#include "kernels/cpu/loops.h"

namespace trireme {

using namespace kernels;

namespace {

InstructionSet widest() {
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2})
    if (available(set)) return set;
  return InstructionSet::portable;
}

}  // namespace

bool available(InstructionSet set) {
  switch (set) {
    case InstructionSet::best:
    case InstructionSet::portable:
      return true;
#if defined(TRIREME_SIMD_X86)
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case InstructionSet::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("fma");
#else
    case InstructionSet::avx2:
    case InstructionSet::avx512:
      return false;
#endif
  }
  return false;
}

InstructionSet instruction_set_of_environment() {
  const char* value = std::getenv("TRIREME_INSTRUCTION_SET");
  if (value == nullptr) return InstructionSet::best;
  for (const InstructionSet set : {InstructionSet::best, InstructionSet::portable,
                                   InstructionSet::avx2, InstructionSet::avx512})
    if (std::string_view(value) == name(set)) {
      require(available(set), "TRIREME_INSTRUCTION_SET=", value,
              ": this machine cannot run such code; the widest it has is ", name(widest()));
      return set;
    }
  throw Error(str("TRIREME_INSTRUCTION_SET=", value,
                  ": expected best, portable, avx2 or avx512 in this environment variable"));
}

InstructionSet kernels::resolve(InstructionSet set) {
  require(available(set), "this machine cannot run ", name(set), " code; the widest it has is ",
          name(widest()));
  if (set == InstructionSet::best) set = instruction_set_of_environment();
  return set == InstructionSet::best ? widest() : set;
}

}  // namespace trireme
