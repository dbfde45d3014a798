// The command `trireme verify`.
#pragma once

#include "launch/commands.h"

namespace trireme::verify {

std::vector<Subcommand> verify_commands();

}  // namespace trireme::verify
