#include "runtime/options/instruction_set.h"

#include <cstdlib>

#include "trireme/core/error.h"

namespace trireme {

void set_instruction_set(const CommandLine& command, const Options& options, Problems& problems) {
  const auto use = [](InstructionSet set) {
    require(setenv("TRIREME_INSTRUCTION_SET", name(set), 1) == 0, "no memory for the environment");
  };
  if (command.given("--instruction-set")) {
    const InstructionSet wanted = options.instruction_set;
    if (!available(wanted))
      problems.add("--instruction-set ", name(wanted),
                   ": this machine cannot run such code; use best, which is the widest it has");
    use(available(wanted) ? wanted : InstructionSet::portable);
    return;
  }
  try {
    (void)instruction_set_of_environment();
  } catch (const Error& error) {
    problems.add(error.what());
    use(InstructionSet::portable);
  }
}

}  // namespace trireme
