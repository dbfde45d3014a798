// The trireme command: tools around training. Finds the command among the tables of commands.h and runs it.
#include <exception>
#include <iostream>

#include "launch/commands.h"
#include "runtime/job/process_start.h"

namespace trireme {
namespace {

int exit_code(ExitCode code) { return static_cast<int>(code); }

std::vector<Subcommand> subcommands() {
  std::vector<Subcommand> all = data_commands();
  for (Subcommand& command : checkpoint_commands()) all.push_back(std::move(command));
  return all;
}

void print_usage(std::ostream& out) {
  out << "Usage: trireme COMMAND [options]; trireme COMMAND --help\n\n";
  for (const Subcommand& sub : subcommands())
    out << "  trireme " << sub.words[0] << ' ' << sub.words[1] << ' ' << sub.usage << "\n      "
        << sub.help << '\n';
}

int dispatch(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "", second = argc > 2 ? argv[2] : "";
  for (const Subcommand& sub : subcommands())
    if (first == sub.words[0] && second == sub.words[1]) return sub.run(argc - 2, argv + 2);
  const bool asked = first == "--help" || first == "-h" || second == "--help";
  if (asked) {
    print_usage(std::cout);
    return exit_code(ExitCode::success);
  }
  std::vector<std::string> names;
  for (const Subcommand& sub : subcommands()) names.push_back(sub.words[0] + " " + sub.words[1]);
  const std::string near = nearest(first + " " + second, names);
  std::cerr << "trireme: "
            << (first.empty() ? "a command is missing"
                              : "unknown command '" + first + " " + second + "'")
            << (near.empty() ? "" : "; did you mean " + near + "?") << "\n\n";
  print_usage(std::cerr);
  return exit_code(ExitCode::configuration);
}

}  // namespace

int parse_and_run(CommandLine& command, int argc, char** argv,
                  const std::function<void(Problems&)>& check,
                  const std::function<ExitCode()>& work) {
  Problems problems;
  if (command.parse(argc, argv, problems) == CommandLine::Outcome::help) {
    std::cout << command.help();
    return exit_code(ExitCode::success);
  }
  check(problems);
  for (const std::string& problem : problems.all()) std::cerr << "trireme: " << problem << '\n';
  return exit_code(problems.empty() ? work() : ExitCode::configuration);
}

}  // namespace trireme

int main(int argc, char** argv) {
  try {
    trireme::prepare_process();
    const int code = trireme::dispatch(argc, argv);
    if (std::cout.flush()) return code;  // stays bad once a write has failed
    std::cerr << "trireme: standard output cannot be written: is its disk full?\n";
    return static_cast<int>(trireme::ExitCode::failure);
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << error.what() << '\n';
    return static_cast<int>(trireme::ExitCode::failure);
  }
}
