// The commands of `trireme`, one table a family. Each reads its options as the programs do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/options/command_line.h"

namespace trireme {

struct Subcommand {
  std::vector<std::string> words;  // one or two: {"plan"}, {"data", "prepare"}
  std::string usage, help;
  /// Returns the exit code of the process.
  int (*run)(int argc, char** argv);
};

std::vector<Subcommand> data_commands();
std::vector<Subcommand> checkpoint_commands();
std::vector<Subcommand> plan_commands();
std::vector<Subcommand> hf_show_commands();
std::vector<Subcommand> hf_transfer_commands();
std::vector<Subcommand> preflight_commands();
std::vector<Subcommand> verify_commands();

/// Parses, checks, and when nothing is wrong does `work`. Prints help, or all mistakes.
int parse_and_run(CommandLine& command, int argc, char** argv,
                  const std::function<void(Problems&)>& check,
                  const std::function<ExitCode()>& work);

/// For `check` of parse_and_run(): does `open`, which finds and opens what the command line names,
/// where that is right so far. What it throws is a mistake of the command line as well (exit code
/// 64): nothing was done yet.
template <class Open>
void open_input(Problems& problems, Open&& open) {
  if (problems.empty()) problems.collect(open);
}

}  // namespace trireme
