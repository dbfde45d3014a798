// The trireme command: tools around training, by the tables of commands.h.
#include <exception>
#include <iostream>

#include "launch/commands.h"
#include "launch/dispatch.h"
#include "launch/supervisor/commands/commands.h"
#include "runtime/core/process/this_process.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/core/text/one_line.h"
#include "runtime/options/check_options.h"

namespace trireme {
namespace {

int exit_code(ExitCode code) { return static_cast<int>(code); }

std::vector<Subcommand> subcommands() {
  std::vector<Subcommand> all = data_commands();
  for (const auto& more :
       {checkpoint_commands(), hf_show_commands(), hf_transfer_commands(), plan_commands(),
        supervisor::run_commands(), supervisor::watch_commands(), supervisor::chaos_commands(),
        supervisor::report_pages_commands(), preflight_commands(), verify_commands()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

int parse_and_run(CommandLine& command, int argc, char** argv,
                  const std::function<void(Problems&)>& check,
                  const std::function<ExitCode()>& work) {
  Problems problems;
  const CommandLine::Outcome outcome = command.parse(argc, argv, problems);
  if (outcome != CommandLine::Outcome::run) {
    std::cout << command.text_of(outcome);
    return exit_code(ExitCode::success);
  }
  check(problems);
  options::check_outputs_differ(command, problems);
  for (const std::string& problem : problems.all())
    std::cerr << "trireme: " << printable(problem) << '\n';
  return exit_code(problems.empty() ? work() : ExitCode::configuration);
}

}  // namespace trireme

int main(int argc, char** argv) {
  try {
    trireme::prepare_process();
    return trireme::exit_code_with_output(
        trireme::dispatch(trireme::subcommands(), argc, argv, std::cout, std::cerr));
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << trireme::printable(trireme::current_exception_text()) << '\n';
    const bool refused = dynamic_cast<const trireme::ConfigurationError*>(&error) != nullptr;
    return static_cast<int>(refused ? trireme::ExitCode::configuration
                                    : trireme::ExitCode::failure);
  }
}
