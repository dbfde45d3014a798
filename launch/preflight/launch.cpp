#include "launch/preflight/launch.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/options/problems.h"

#include "launch/preflight/mark.h"
#include "launch/program_of_trireme.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/output.h"
#include "runtime/core/process/run_program.h"
#include "runtime/core/text/one_line.h"
#include "runtime/store/write/temporary_directory.h"

namespace trireme::preflight {
namespace {

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

}  // namespace

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

}  // namespace trireme::preflight
