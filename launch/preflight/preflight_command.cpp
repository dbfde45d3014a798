// trireme preflight: measures nodes before a job uses them, and names those that are bad.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/options/problems.h"

#include "launch/commands.h"
#include "launch/preflight/baseline.h"
#include "launch/preflight/judge.h"
#include "launch/preflight/report.h"
#include "launch/program_of_trireme.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/output.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/machine/scheduler.h"
#include "launch/supervisor/records/nodes.h"
#include "runtime/core/parse_number.h"
#include "runtime/core/process/child.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/core/process/this_process.h"
#include "runtime/core/seconds_since.h"
#include "runtime/core/text/one_line.h"
#include "runtime/options/check_options.h"
#include "runtime/store/write/held_path.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::preflight {
namespace {

/// Starts trireme_preflight with mpirun, and reads what it has measured.
struct Launch {
  std::vector<std::string> mpirun = {"mpirun"};  // and options for it
  std::string remote_shell;                      // empty: that of Open MPI
  std::vector<supervisor::Host> hosts;           // empty: this machine
  std::vector<std::string> options;              // of trireme_preflight
  Index gpus = 0;                       // of each host, with a rank for each; 0: one rank a host
  double seconds = 120;                 // then it is ended
  const EndSignals* signals = nullptr;  // after one it is ended, and no more started
  /// Gets each check when the first host begins with it.
  std::function<void(const std::string& check)> begins = [](const std::string&) {};
  /// Gets each half minute how long it has taken so far, and in which checks hosts are.
  std::function<void(double passed_s, const std::string& where)> waits = [](double,
                                                                            const std::string&) {};
};

/// The program, beside this one. Throws: Error when it is not there.
std::string program_path();

/// Nothing after a signal, or when it failed: a host does not start a rank, or does not reach the
/// others; `why` gets what the first rank that failed said, or the remote shell, and, where the
/// time is over, the checks that had not ended. Throws: ConfigurationError where mpirun starts
/// nothing on any host, as for root.
std::optional<Report> measure(const Launch& launch, std::string& why);
/// As above. Where all together fail, each host alone, 32 at a time: those that fail alone as well
/// are bad, and if none does, all are, as they do not reach each other.
Report measure_each(const Launch& launch);
/// Adds what was measured of GPUs to the report of their nodes: figures, and faults of the nodes.
void add_gpus(const Report& gpus, Report& report);

namespace fs = std::filesystem;
using supervisor::Words;

constexpr std::size_t most_output = std::size_t{64} << 20;

/// Which check each process is in, by the lines that it prints.
class Progress {
 public:
  explicit Progress(const Launch& launch) : launch_(launch) {}
  void take(std::string_view line) {
    if (!line.starts_with(progress_mark)) {
      if (!line.starts_with(mark)) others_.read(std::string(line) + "\n");
      return;
    }
    line.remove_prefix(progress_mark.size());
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) return;
    const std::string check(line.substr(colon + 2));
    at_[std::string(line.substr(0, colon))] = check;
    if (known_.insert(check).second) launch_.begins(check);
  }
  /// "in 'run directory' on n3".
  std::string where() const {
    if (at_.empty()) return "before the first check";
    constexpr std::size_t most = 3;
    std::string text;
    std::size_t count = 0;
    for (const auto& [name, check] : at_)
      if (++count <= most)
        text += fmt::format("{}'{}' on {}", count > 1 ? ", " : "in ", check, name);
    return text;
  }
  const supervisor::Evidence& others() const { return others_.found(); }

 private:
  const Launch& launch_;
  std::map<std::string, std::string> at_;
  std::set<std::string> known_;
  supervisor::EvidenceReader others_;  // lines of anything else
};

/// Why a preflight was not made: what its program or the remote shell says, which mpirun explains
/// at length.
std::string reason_in(const supervisor::Evidence& found, bool mpirun_killed) {
  if (!found.first_error.empty()) return found.first_error;
  if (found.dead_rank >= 0) return str("signal ", found.dead_signal, " ended its process");
  if (!found.box.empty()) return found.box;
  if (!found.last_line.empty()) return found.last_line;
  return mpirun_killed ? "a signal ended mpirun itself" : "it printed nothing";
}

std::string joined_names(const std::vector<supervisor::Host>& hosts) {
  std::string names;
  for (const supervisor::Host& host : hosts) names += (names.empty() ? "" : ",") + host.name;
  return names;
}

Node bad_node(const std::string& host, const std::string& fault) {
  Node node;
  node.host = host;
  node.kind = unknown_kind;
  node.faults.push_back(fault);
  return node;
}

/// Of a node that may not be in the report yet.
void add_fault(const std::string& host, const std::string& fault, Report& report) {
  for (Node& node : report.nodes)
    if (node.host == host) {
      node.faults.push_back(fault);
      return;
    }
  report.nodes.push_back(bad_node(host, fault));
}

struct Alone {
  std::optional<Report> report;
  std::string why;
};
/// Each host alone, many at a time: a host that does not answer keeps the others from nothing.
std::vector<Alone> measure_alone(const Launch& launch) {
  constexpr std::size_t together = 32;
  std::vector<Alone> all(launch.hosts.size());
  for (std::size_t begin = 0; begin < all.size(); begin += together) {
    std::vector<std::thread> threads;
    for (std::size_t i = begin; i < std::min(all.size(), begin + together); ++i)
      threads.emplace_back([&, i] {
        Launch alone = launch;
        alone.hosts = {launch.hosts[i]};
        alone.begins = [](const std::string&) {};
        alone.waits = [](double, const std::string&) {};
        try {
          all[i].report = measure(alone, all[i].why);
        } catch (const std::exception& error) {
          all[i].why = error.what();
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  return all;
}

std::string program_path() { return program_of_trireme("trireme_preflight"); }

std::optional<Report> measure(const Launch& launch, std::string& why) {
  if (launch.signals != nullptr && launch.signals->came()) return std::nullopt;
  const TemporaryDirectory scratch(fs::temp_directory_path().string(), "trireme-preflight");
  supervisor::Launch start;
  start.mpirun = launch.mpirun;
  start.scratch = scratch.path();
  start.shared = scratch.path();
  start.remote_shell = launch.remote_shell;
  supervisor::AttemptPlan plan;
  plan.hosts = launch.hosts;
  plan.ranks = std::max<Index>(1, std::ssize(launch.hosts)) * std::max<Index>(1, launch.gpus);
  Words program = {program_path()};
  program.insert(program.end(), launch.options.begin(), launch.options.end());
  if (!launch.hosts.empty()) program.insert(program.end(), {"--names", joined_names(launch.hosts)});
  if (launch.gpus > 0) program.insert(program.end(), {"--gpus", str(launch.gpus)});
  Progress progress(launch);
  const ChildEnd end = run_program(
      supervisor::mpirun_words(start, plan, program),
      {.limit_s = launch.seconds,
       .ending_s = 3,
       .signals = launch.signals,
       .most_output = most_output,
       .take_line = [&](std::string_view line) { progress.take(line); },
       .still_runs = [&](double passed_s) { launch.waits(passed_s, progress.where()); }});
  const std::string_view output = end.output;
  const std::size_t begin = output.find(mark);
  const std::size_t line_end = begin == output.npos ? begin : output.find('\n', begin);
  if (end.succeeded() && line_end != output.npos)
    return report_of(
        parse_json(output.substr(begin + mark.size(), line_end - begin - mark.size())));
  if (const std::string refusal = progress.others().refusal; !refusal.empty())
    throw ConfigurationError(refusal);
  const bool killed = end.why == ChildEnd::Why::by_itself && !end.code();
  const std::string printed = one_line(reason_in(progress.others(), killed));
  why = end.why == ChildEnd::Why::late ? fmt::format("no end after {:.0f} s, {}; {}",
                                                     launch.seconds, progress.where(), printed)
                                       : printed;
  return std::nullopt;
}

Report measure_each(const Launch& launch) {
  std::string why;
  if (const auto report = measure(launch, why)) return *report;
  Report all;
  if (launch.hosts.size() <= 1) {
    const std::string host = launch.hosts.empty() ? "this machine" : launch.hosts.front().name;
    all.nodes.push_back(bad_node(host, "the preflight fails on it: " + why));
    return all;
  }
  launch.begins("each host alone, as all together fail: " + why);
  const std::vector<Alone> each = measure_alone(launch);
  const bool one_failed =
      std::any_of(each.begin(), each.end(), [](const Alone& alone) { return !alone.report; });
  for (std::size_t i = 0; i < each.size(); ++i) {
    const std::string& host = launch.hosts[i].name;
    if (each[i].report) {
      const Report& one = *each[i].report;
      all.nodes.insert(all.nodes.end(), one.nodes.begin(), one.nodes.end());
      all.gpus.insert(all.gpus.end(), one.gpus.begin(), one.gpus.end());
      all.groups.insert(all.groups.end(), one.groups.begin(), one.groups.end());
    }
    if (each[i].report && one_failed) continue;
    add_fault(host,
              each[i].report ? "works alone, but not together with the others: " + why
                             : "the preflight fails on it: " + each[i].why,
              all);
  }
  return all;
}

void add_gpus(const Report& gpus, Report& report) {
  report.gpus.insert(report.gpus.end(), gpus.gpus.begin(), gpus.gpus.end());
  report.groups.insert(report.groups.end(), gpus.groups.begin(), gpus.groups.end());
  for (const Node& failed : gpus.nodes)
    for (const std::string& fault : failed.faults)
      add_fault(report.nodes.size() == 1 ? report.nodes.front().host : failed.host, fault, report);
}

// What a preflight has found, for people.

std::string table(const Report& report, const std::vector<Finding>& findings);

std::string lines_of(const std::vector<Node>& nodes, const std::vector<Finding>& findings) {
  std::size_t width = 4;
  for (const Node& node : nodes) width = std::max(width, node.host.size());
  std::string text;
  for (const Node& node : nodes) {
    const bool bad = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      const bool of_it = finding.host == node.host || finding.host.starts_with(node.host + "/");
      return finding.bad && of_it && finding.peer.empty();  // "n1/gpu3" is of n1
    });
    text += fmt::format("{:<{}}  {}  {}\n", node.host, width, bad ? "BAD " : "well", node.kind);
    std::string line;
    for (const FigureRule& rule : figure_rules())
      if (const auto value = node.figures.find(std::string(rule.name)); value != node.figures.end())
        line += fmt::format("  {} {:.4g}", rule.name, value->second);
    if (!line.empty()) text += fmt::format("{:<{}}{}\n", "", width, line);
  }
  return text;
}

std::string table(const Report& report, const std::vector<Finding>& findings) {
  std::string text = lines_of(report.nodes, findings) + lines_of(report.gpus, findings);
  for (const Pair& pair : report.pairs)
    text += fmt::format("{} - {}: {:.3g} us, {:.3g} GB/s\n", pair.from, pair.to, pair.latency_us,
                        pair.gb_per_s);
  for (const Group& group : report.groups)
    text += fmt::format("{}: NCCL {} {:.3g} GB/s\n", group.name, group.kind, group.gb_per_s);
  for (const Finding& finding : findings)
    text += fmt::format("{}: {}{}: {}\n", finding.bad ? "bad" : "warning", finding.host,
                        finding.peer.empty() ? "" : " - " + finding.peer, finding.text);
  return text;
}

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

}  // namespace trireme::preflight

std::vector<trireme::Subcommand> trireme::preflight_commands() {
  return {{{"preflight"}, "[--short|--long] [options]", "name bad and slow nodes", preflight::run}};
}
