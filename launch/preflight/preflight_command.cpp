// trireme preflight: measures nodes before a job uses them, and names those that are bad.
#include <iostream>
#include <sstream>

#include <fmt/format.h>

#include "launch/preflight/commands.h"
#include "launch/preflight/judge.h"
#include "launch/preflight/launch.h"
#include "launch/supervisor/machine/hosts_of_scheduler.h"
#include "launch/supervisor/machine/processes.h"
#include "launch/supervisor/machine/run_directory.h"
#include "runtime/store/file.h"

namespace trireme::preflight {
namespace {

constexpr int some_node_is_bad = 69;
constexpr double short_s = 120, beyond_steady_s = 600;  // given up after; busy machines are slow

struct Given {
  bool brief = false, thorough = false;
  double steady_s = 30;
  std::string hosts, hostfile, run_dir, json, against, mpirun = "mpirun", remote_shell;
  Index nodes = 0;
  Launch launch;
  std::optional<Report> before;
};

void declare(CommandLine& command, Given& given) {
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
  command.text("--against", given.against, "FILE",
               "an earlier report: less than 0.85 of its figures is slow");
}

std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<supervisor::Host> hosts_of(const Given& given) {
  if (!given.hosts.empty()) {
    std::string lines = given.hosts;
    for (char& c : lines)
      if (c == ',') c = '\n';
    return supervisor::parse_hosts(lines, 1);
  }
  const supervisor::HostSource source = supervisor::find_hosts(
      {given.hostfile, given.launch.mpirun, true}, supervisor::variable_of_this_process);
  return supervisor::read_hosts(source, 1);
}

void check(Given& given, Problems& problems) {
  constexpr Index most_bytes = Index{1} << 30;
  if (given.brief && given.thorough) problems.add("--short and --long: give one of them");
  if (!given.hosts.empty() && !given.hostfile.empty())
    problems.add("--hosts and --hostfile: give one of them");
  given.launch.mpirun = words_in(given.mpirun);
  if (given.launch.mpirun.empty() || !supervisor::is_executable(given.launch.mpirun.front()))
    problems.add("--mpirun '", given.mpirun, "': there is no such program");
  problems.collect([&] { given.launch.hosts = hosts_of(given); });
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
        given.before = report_of(parse_json(read_whole(given.against, most_bytes)));
      } catch (const Error& error) {
        throw Error(str("--against ", given.against, ": ", error.what()));
      }
    });
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

int measure_and_judge(Given& given) {
  given.launch.remote_shell = given.remote_shell;
  given.launch.seconds = given.thorough ? given.steady_s + beyond_steady_s : short_s;
  std::vector<std::string>& options = given.launch.options;
  if (given.thorough) options.insert(options.end(), {"--long", "--seconds", str(given.steady_s)});
  if (given.before) options.push_back("--twice");
  if (!given.run_dir.empty()) {
    const supervisor::Paths paths(given.run_dir);  // the same from every host's working directory
    options.insert(options.end(), {"--run-dir", paths.run});
  }
  const Report report = measure_each(given.launch);
  const std::vector<Finding> findings = judge(report, given.before ? &*given.before : nullptr);
  std::cout << table(report, findings);
  if (!given.json.empty())
    supervisor::replace_file(given.json, to_text(json_of(report, findings)) + "\n");
  return any_bad(findings) ? some_node_is_bad : 0;
}

int run(int argc, char** argv) {
  Given given;
  CommandLine command("trireme preflight",
                      "Measures nodes, and names those that are broken or slow. Exit code 0: all "
                      "are well; 69: one is bad; 64: the command line is wrong; 1: another "
                      "failure.");
  declare(command, given);
  int code = 0;
  const int checked = parse_and_run(
      command, argc, argv, [&](Problems& problems) { check(given, problems); },
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
