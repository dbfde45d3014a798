// The commands of supervised runs: `trireme run` (run_command.cpp), and those that look at a run or
// talk to its supervisor (watch_commands.cpp).
#pragma once

#include <vector>

#include "launch/commands.h"

namespace trireme::supervisor {

std::vector<Subcommand> run_commands();
std::vector<Subcommand> watch_commands();
std::vector<Subcommand> chaos_commands();

}  // namespace trireme::supervisor
