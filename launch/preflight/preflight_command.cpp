// trireme preflight: measures nodes before a job uses them, and names those that are bad.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>

#include <fmt/format.h>

#include "launch/preflight/baseline.h"
#include "launch/preflight/commands.h"
#include "launch/preflight/launch.h"
#include "launch/preflight/table.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/machine/scheduler.h"
#include "runtime/core/parse_number.h"
#include "runtime/core/process/child.h"
#include "runtime/core/process/host_name.h"
#include "runtime/core/seconds_since.h"
#include "runtime/options/check_options.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::preflight {
namespace {

constexpr int some_node_is_bad = 69;
// Given up after: each check is bounded, but for a file system that does not answer. What is slow,
// or compared with an earlier report, is measured twice.
constexpr double short_s = 120, beyond_steady_s = 240;
constexpr int most_times = 2;

struct PreflightArguments {
  bool brief = false, thorough = false;
  double steady_s = 30;
  std::string hosts, hostfile, run_dir, json, against, mpirun = "mpirun", remote_shell;
  Index nodes = 0;
  Launch launch;
  std::optional<Report> before;
};

void declare(CommandLine& command, PreflightArguments& given) {
  command.group("What");
  command.flag("--short", given.brief, "some seconds (default)");
  command.flag("--long", given.thorough, "minutes: speed under load, disks, results in bits");
  command.real("--seconds", given.steady_s, {0, 3600}, "of products with --long");
  command.text("--run-dir", given.run_dir, "DIR", "must be writable from every host");
  command.group("Where");
  command.text("--hosts", given.hosts, "A,B,...", "hosts, one rank on each");
  command.text(
      "--hostfile", given.hostfile, "FILE",
      "hosts, a line each as for mpirun; default: the nodes of a Slurm job, the workers of "
      "an MPIJob, or this machine");
  command.whole("--nodes", given.nodes, at_least(1), "only the first so many hosts");
  command.text("--mpirun", given.mpirun, "WORDS", "mpirun, and options for it");
  command.text("--remote-shell", given.remote_shell, "CMD", "what starts a process on a host");
  command.group("Result");
  command.text("--json", given.json, "FILE", "writes the report: an object a node, and one a pair");
  command.writes("--json");
  command.text("--against", given.against, "FILE",
               "an earlier report: less than 0.85 of its figures is slow");
}

std::vector<supervisor::Host> hosts_of(const PreflightArguments& given) {
  if (!given.hosts.empty()) {
    std::string lines = given.hosts;
    for (char& c : lines)
      if (c == ',') c = '\n';
    return supervisor::hosts_in(lines, "--hosts " + given.hosts, 1);
  }
  const supervisor::HostSource source = supervisor::find_hosts(
      {given.hostfile, given.launch.mpirun, true}, supervisor::variable_of_this_process);
  return supervisor::read_hosts(source, 1);
}

std::vector<std::string> names_of(const std::vector<supervisor::Host>& hosts) {
  std::vector<std::string> names;
  for (const supervisor::Host& host : hosts) names.push_back(host.name);
  if (!names.empty()) return names;
  return {host_name()};
}

void check(PreflightArguments& given, const CommandLine& command, Problems& problems) {
  if (command.given("--seconds") && !given.thorough)
    problems.add("--seconds has no meaning without --long");
  if (given.brief && given.thorough) problems.add("--short and --long: give one of them");
  if (!given.hosts.empty() && !given.hostfile.empty())
    problems.add("--hosts and --hostfile: give one of them");
  given.launch.mpirun = supervisor::words_in(given.mpirun);
  if (given.launch.mpirun.empty() || !is_executable(given.launch.mpirun.front()))
    problems.add("--mpirun '", given.mpirun, "': there is no such program");
  problems.collect([&] { given.launch.hosts = hosts_of(given); });
  for (const char* option : {"--hosts", "--hostfile"})
    if (command.given(option) && problems.empty() && given.launch.hosts.empty())
      problems.add(option, ' ', given.hosts + given.hostfile, " names no host");
  const Index found = std::ssize(given.launch.hosts);
  if (given.nodes > std::max<Index>(found, 1))
    problems.add("--nodes ", given.nodes, ": there are ", found, " hosts");
  else if (given.nodes > 0 && found > 0)
    given.launch.hosts.resize(static_cast<std::size_t>(given.nodes));
  if (given.launch.hosts.empty() && !given.remote_shell.empty())
    problems.add("--remote-shell has no meaning on one machine; give --hosts or --hostfile");
  if (!given.against.empty())
    problems.collect([&] {
      try {
        given.before = read_baseline(given.against, names_of(given.launch.hosts));
      } catch (const Error& error) {
        throw Error(str("--against ", given.against, ": ", error.what()));
      }
    });
  std::error_code missing;
  const std::filesystem::path scratch = std::filesystem::temp_directory_path(missing);
  if (missing)
    problems.add("TMPDIR ", supervisor::variable_of_this_process("TMPDIR"),
                 " is no directory: ", missing.message());
  if (std::filesystem::exists(std::filesystem::symlink_status(given.run_dir, missing)))
    options::check_directory("--run-dir", given.run_dir, problems);
  options::check_output("--json", given.json, outputs::preflight, problems);
  problems.collect([] { program_path(); });
}

Json json_of(const Report& report, const std::vector<Finding>& findings) {
  Json json = to_json(report);
  Json::Array all;
  for (const Finding& finding : findings)
    all.emplace_back(Json::Object{{"host", finding.host},
                                  {"peer", finding.peer.empty() ? Json() : Json(finding.peer)},
                                  {"bad", finding.bad},
                                  {"text", finding.text}});
  std::get<Json::Object>(json.value).emplace_back("findings", std::move(all));
  return json;
}

/// The long preflight says what it does.
std::function<void(const std::string&)> show_checks() {
  return [began = steady_seconds()](const std::string& check) {
    std::cerr << fmt::format("{:4.0f} s  {}\n", seconds_since(began), check);
  };
}

/// How many GPUs each of the hosts has that have any.
Index gpus_of(const Report& report, Launch& launch) {
  Index least = 0;
  std::vector<supervisor::Host> with_gpus;
  for (const Node& node : report.nodes) {
    const auto fact = node.facts.find("gpus");
    const Index gpus = fact == node.facts.end() ? 0 : parse_number<Index>(fact->second).value_or(0);
    if (gpus == 0) continue;
    least = least == 0 ? gpus : std::min(least, gpus);
    for (const supervisor::Host& host : launch.hosts)
      if (host.name == node.host) with_gpus.push_back(host);
  }
  launch.hosts = with_gpus;
  return least;
}

Report measure_everything(PreflightArguments& given) {
  Launch& launch = given.launch;
  if (given.thorough) launch.begins = show_checks();
  Report report = measure_each(launch);
  Launch of_gpus = launch;
  of_gpus.gpus = given.thorough ? gpus_of(report, of_gpus) : 0;
  if (of_gpus.gpus == 0) return report;
  add_gpus(measure_each(of_gpus), report);
  return report;
}

int measure_and_judge(PreflightArguments& given) {
  EndSignals signals;
  given.launch.signals = &signals;
  given.launch.waits = [](double passed_s, const std::string& where) {
    std::cerr << fmt::format("{:4.0f} s  {}\n", passed_s, where);
  };
  given.launch.remote_shell = given.remote_shell;
  given.launch.seconds = given.thorough ? most_times * given.steady_s + beyond_steady_s : short_s;
  std::vector<std::string>& options = given.launch.options;
  if (given.thorough) options.insert(options.end(), {"--long", "--seconds", str(given.steady_s)});
  if (given.before) options.push_back("--twice");
  if (!given.run_dir.empty()) {
    const supervisor::Paths paths(given.run_dir);  // the same from every host's working directory
    options.insert(options.end(), {"--run-dir", paths.run});
  }
  const Report report = measure_everything(given);
  if (const int signal = signals.take()) end_by(signal);
  std::vector<Finding> warnings;
  if (given.before) warnings = keep_comparable(report, *given.before, given.against);
  std::vector<Finding> findings = judge(report, given.before ? &*given.before : nullptr);
  findings.insert(findings.end(), warnings.begin(), warnings.end());
  std::cout << table(report, findings);
  if (!given.before && !are_compared(report))
    std::cout << "speeds are not judged: they are compared among four or more nodes of one kind, "
                 "or with an earlier report (--against FILE)\n";
  if (!given.json.empty())
    write_output(given.json, to_text(json_of(report, findings)) + "\n", outputs::preflight);
  return any_bad(findings) ? some_node_is_bad : 0;
}

int run(int argc, char** argv) {
  PreflightArguments given;
  CommandLine command("trireme preflight",
                      "Measures nodes, and names those that are broken or slow. Exit code 0: all "
                      "are well; 69: one is bad; 64: the command line is wrong; 1: another "
                      "failure.");
  declare(command, given);
  int code = 0;
  const int checked = parse_and_run(
      command, argc, argv, [&](Problems& problems) { check(given, command, problems); },
      [&] {
        code = measure_and_judge(given);
        return ExitCode::success;
      });
  return checked != 0 ? checked : code;
}

}  // namespace

std::vector<Subcommand> preflight_commands() {
  return {{{"preflight"}, "[--short|--long] [options]", "name bad and slow nodes", run}};
}

}  // namespace trireme::preflight
