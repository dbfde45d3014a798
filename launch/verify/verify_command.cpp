// trireme verify: proves a layout right against one rank.
#include <algorithm>
#include <array>
#include <iostream>

#include <fmt/format.h>

#include "launch/commands.h"
#include "launch/supervisor/commands/commands.h"
#include "launch/verify/verify.h"
#include "runtime/core/output/output_file.h"
#include "runtime/core/process/child.h"
#include "runtime/core/seconds_since.h"

namespace trireme::verify {
namespace {

struct VerifyArguments {
  Request request;
  std::string mpirun = "mpirun";
  bool json = false;
};

void declare(CommandLine& command, VerifyArguments& given) {
  Request& request = given.request;
  command.whole("--ranks,-n", request.ranks, at_least(1), "ranks of the layout");
  command.text("--mpirun", given.mpirun, "WORDS", "mpirun, and options for it");
  command.whole("--depth", request.depth, at_least(1),
                "blocks of the model; default: one for each virtual stage of the pipeline");
  command.text("--depth-option", request.depth_option, "OPTION",
               "option of PROGRAM that sets its number of blocks");
  command.text("--directory", request.directory, "DIR",
               "where the jobs write, in a directory of their own that is removed at the end; all "
               "hosts must see it");
  supervisor::declare_duration(command, "--limit", request.limit_s,
                               "time after which a job is ended");
  command.flag("--json", given.json, "print one line of JSON instead of text");
}

void check_mpirun(VerifyArguments& given, Problems& problems) {
  Words& mpirun = given.request.mpirun;
  mpirun = supervisor::words_in(given.mpirun);
  if (mpirun.empty() || !is_executable(mpirun.front()))
    problems.add("--mpirun '", given.mpirun, "': there is no such program");
  constexpr std::array counts = {"-np", "-n", "-c", "--n", "--np"};
  for (const std::string& word : mpirun)
    if (std::find(counts.begin(), counts.end(), word) != counts.end())
      problems.add("--mpirun '", given.mpirun, "': ", word,
                   " belongs into --ranks, because jobs have different numbers of ranks");
}

void check(VerifyArguments& given, const CommandLine& command, const Words& program,
           Problems& problems) {
  check_mpirun(given, problems);
  if (!command.given("--ranks"))
    problems.add("--ranks is missing: the number of ranks of the layout");
  const std::string& directory = given.request.directory;
  std::string wrong = why_no_output_directory(directory);
  if (wrong.empty()) wrong = why_not_writable(directory);  // it is not made
  if (!wrong.empty()) problems.add("--directory ", directory, ": ", wrong);
  given.request.program = program;
  if (program.empty())
    problems.add(
        "PROGRAM is missing; it follows --: trireme verify --ranks N -- train_gpt --tp 2 ...");
  else if (!is_executable(program.front()))
    problems.add(program.front(), ": there is no such program");
}

/// A line for each job, with the time since the start.
std::function<void(const std::string&)> show_jobs() {
  return [started = steady_seconds()](const std::string& job) {
    std::cerr << fmt::format("trireme verify: {:4.0f} s  job {}\n", seconds_since(started), job);
  };
}

int prove(VerifyArguments& given) {
  given.request.say = show_jobs();
  EndSignals signals;
  try {
    const Report report = verify(given.request, signals);
    std::cout << (given.json ? to_json(report) : to_text(report)) << std::flush;
    return static_cast<int>(report.proved() ? ExitCode::success : ExitCode::corrupted);
  } catch (const Interrupted&) {
    const int signal = signals.take();
    std::cerr << "trireme verify: " << ::strsignal(signal) << ": nothing is proved\n";
    end_by(signal);
    return 128 + signal;  // where it does not end this process
  } catch (const ConfigurationError& error) {
    std::cerr << "trireme verify: " << error.what() << '\n';
    return static_cast<int>(ExitCode::configuration);
  } catch (const Error& error) {
    std::cerr << "trireme verify: " << error.what() << '\n';
    return static_cast<int>(ExitCode::failure);
  }
}

int run(int argc, char** argv) {
  int own = 0;
  while (own < argc && std::string(argv[own]) != "--") ++own;
  const Words program(argv + std::min(own + 1, argc), argv + argc);
  VerifyArguments given;
  CommandLine command("trireme verify",
                      "trireme verify --ranks N [options] -- PROGRAM ...: trains two steps of a "
                      "shallow model on this layout and on one rank, and compares losses, "
                      "gradients, parameters, bits of a second run, and checkpoints. Exit code 0: "
                      "proved; 66: the layout computes something else; 64: it cannot be tried; 1: "
                      "a job failed.");
  declare(command, given);
  int code = 0;
  const int checked = parse_and_run(
      command, own, argv, [&](Problems& problems) { check(given, command, program, problems); },
      [&] {
        code = prove(given);
        return ExitCode::success;
      });
  return checked != 0 ? checked : code;
}

}  // namespace

}  // namespace trireme::verify

std::vector<trireme::Subcommand> trireme::verify_commands() {
  return {{{"verify"},
           "--ranks N [options] -- PROGRAM ...",
           "prove a layout right against one rank",
           verify::run}};
}
