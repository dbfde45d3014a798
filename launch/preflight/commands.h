// The command of the preflight.
#pragma once

#include <vector>

#include "launch/commands.h"

namespace trireme::preflight {

std::vector<Subcommand> preflight_commands();

}  // namespace trireme::preflight
