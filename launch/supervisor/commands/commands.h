// The commands of supervised runs: `trireme run` (run_command.cpp), and those that look at a run or
// talk to its supervisor (watch_commands.cpp).
#pragma once

#include <vector>

#include "launch/commands.h"
#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

/// "at work", "between attempts", or how the last supervisor ended.
std::string state_of(const History& history, bool supervised);

inline constexpr const char* run_help = "directory of a run (--save)";

/// trireme status (status_command.cpp).
int status(int argc, char** argv);

/// Adds an option whose value is a duration, written as parse_duration() reads it and kept in
/// seconds; 0 seconds are shown as no value.
void declare_duration(CommandLine& command, const std::string& name, double& value,
                      const std::string& help);

std::vector<Subcommand> run_commands();
std::vector<Subcommand> watch_commands();
std::vector<Subcommand> chaos_commands();
std::vector<Subcommand> report_pages_commands();

}  // namespace trireme::supervisor
