#include "launch/supervisor/machine/scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "trireme/core/error.h"

#include "runtime/core/process/child.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

constexpr Index most_hosts_bytes = Index{16} << 20;
constexpr Index most_nodes = 100'000;

/// What the shell prints, and how it ends. It must end soon.
ChildEnd run_shell(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"/bin/sh"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Child child(words, {.output = ChildOptions::Output::pipe, .errors = false});
  return child.wait();
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool is_number(const std::string& text) {
  constexpr std::size_t most_digits = 9;
  return !text.empty() && text.size() <= most_digits &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

/// "1-3,07": "1", "2", "3", "07". Numbers of a range keep the width of its first.
std::vector<std::string> expand_numbers(const std::string& text) {
  std::vector<std::string> numbers;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const std::string first = part.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : part.substr(dash + 1);
    require(is_number(first) && is_number(last) && std::stoll(first) <= std::stoll(last) &&
                std::stoll(last) - std::stoll(first) < most_nodes,
            "'", part, "' is no range of numbers");
    for (Index i = std::stoll(first); i <= std::stoll(last); ++i) {
      const std::string number = std::to_string(i);
      const std::size_t zeros = first.size() > number.size() ? first.size() - number.size() : 0;
      numbers.push_back(std::string(zeros, '0') + number);
    }
  }
  require(!numbers.empty(), "'[]' is empty");
  return numbers;
}

/// "rack[1-2]node[1-2]": each of the four.
std::vector<std::string> expand_names(const std::string& pattern) {
  const std::size_t open = pattern.find('[');
  if (open == std::string::npos) return {pattern};
  const std::size_t close = pattern.find(']', open);
  require(close != std::string::npos, "'", pattern, "' lacks a ]");
  std::vector<std::string> names;
  const std::vector<std::string> ends = expand_names(pattern.substr(close + 1));
  for (const std::string& number : expand_numbers(pattern.substr(open + 1, close - open - 1)))
    for (const std::string& end : ends) names.push_back(pattern.substr(0, open) + number + end);
  return names;
}

/// "2(x3),1": 2, 2, 2, 1.
std::vector<std::string> expand_slots(const std::string& text) {
  std::vector<std::string> slots;
  for (const std::string& part : split(text, ',')) {
    const std::size_t open = part.find("(x");
    const std::string times = open == std::string::npos ? "1" : part.substr(open + 2);
    const std::string digits = times.substr(0, times.find(')'));
    require(is_number(part.substr(0, open)) && is_number(digits) && std::stoll(digits) < most_nodes,
            "'", part, "' is no number of tasks");
    slots.insert(slots.end(), static_cast<std::size_t>(std::stoll(digits)), part.substr(0, open));
  }
  return slots;
}

/// Of mpirun, by which it gets hosts: with one dash or two, and in newer ones also "--host=n1".
bool names_hosts(const std::string& option) {
  if (!option.starts_with('-')) return false;
  const std::string word = option.substr(option.starts_with("--") ? 2 : 1);
  const std::string name = word.substr(0, word.find('='));
  for (const char* known : {"H", "host", "hostfile", "machinefile", "default-hostfile"})
    if (name == known) return true;
  return false;
}

std::string variable_or(const Environment& environment, const std::string& name,
                        const std::string& older) {
  const std::string value = environment(name);
  return value.empty() ? environment(older) : value;
}

/// Lines as in a file of hosts. mpirun takes its slots from the same variable.
std::string lines_of_slurm(const Environment& environment) {
  const std::vector<std::string> nodes =
      expand_nodelist(variable_or(environment, "SLURM_JOB_NODELIST", "SLURM_NODELIST"));
  std::vector<std::string> slots = expand_slots(environment("SLURM_TASKS_PER_NODE"));
  require(slots.empty() || slots.size() == nodes.size(), "SLURM_TASKS_PER_NODE has ", slots.size(),
          " nodes, but SLURM_JOB_NODELIST has ", nodes.size());
  std::string lines;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    lines += nodes[i] + (slots.empty() ? "" : " slots=" + slots[i]) + "\n";
  return lines;
}

}  // namespace

std::string variable_of_this_process(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

std::vector<std::string> expand_nodelist(const std::string& list) {
  std::vector<std::string> names;
  int depth = 0;
  std::string pattern;
  for (const char c : list + ",") {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c != ',' || depth > 0) {
      pattern += c;
      continue;
    }
    for (std::string& name : expand_names(pattern))
      if (!name.empty()) names.push_back(std::move(name));
    pattern.clear();
  }
  require(depth == 0, "'", list, "' lacks a bracket");
  return names;
}

HostSource find_hosts(const HostRequest& request, const Environment& environment,
                      const std::string& discovery) {
  using Kind = HostSource::Kind;
  for (const std::string& word : request.mpirun)
    require(!names_hosts(word), "--mpirun: ", word,
            " has no meaning here: give the hosts by --hostfile FILE, a line each, so that one "
            "that is lost or bad can be left out");
  if (!request.hostfile.empty())
    return {Kind::hostfile, "--hostfile " + request.hostfile, request.hostfile, ""};
  if (const std::string job = variable_or(environment, "SLURM_JOB_ID", "SLURM_JOBID");
      !job.empty()) {
    const std::string name = "Slurm job " + job;
    std::string lines;
    try {
      lines = lines_of_slurm(environment);
    } catch (const Error& error) {
      throw Error(str(name, ": ", error.what(), "; give --hostfile"));
    }
    const bool one = lines.find('\n') + 1 == lines.size();
    if (lines.empty() || (one && !request.several)) return {};
    return {Kind::slurm, name, "", lines};
  }
  if (std::filesystem::exists(discovery)) return {Kind::discovery, discovery, discovery, ""};
  return {};
}

namespace {

/// A line for each host.
std::string lines_of(const HostSource& source) {
  switch (source.kind) {
    case HostSource::Kind::this_machine:
      return "";
    case HostSource::Kind::hostfile:
      return read_whole(source.path, most_hosts_bytes);
    case HostSource::Kind::slurm:
      return source.text;
    case HostSource::Kind::discovery:
      break;
  }
  const ChildEnd end = run_shell({source.path});
  require(end.succeeded(), source.path, " failed: it must print the hosts, and exit with 0");
  return end.output;
}

}  // namespace

std::vector<Host> hosts_in(const std::string& lines, const std::string& name, Index default_slots) {
  try {
    return parse_hosts(lines, default_slots);
  } catch (const Error& error) {
    throw Error(str(name, ": ", error.what()));
  }
}

std::vector<Host> read_hosts(const HostSource& source, Index default_slots) {
  return hosts_in(lines_of(source), source.name, default_slots);
}

bool asks_for_no_kill(const std::string& batch_script) {
  for (const std::string& line : split(batch_script, '\n')) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != "#SBATCH") continue;
    while (words >> word && !word.starts_with('#'))
      if (word == "--no-kill" || word == "-k") return true;
  }
  return false;
}

bool job_has_no_kill(const Environment& environment) {
  for (const char* name : {"SBATCH_NO_KILL", "SLURM_NO_KILL"})
    if (!environment(name).empty()) return true;
  const std::string job = variable_or(environment, "SLURM_JOB_ID", "SLURM_JOBID");
  if (!is_number(job)) return false;
  return asks_for_no_kill(
      run_shell({"-c", "scontrol write batch_script " + job + " - 2> /dev/null"}).output);
}

namespace {

const std::string setting = "plm_rsh_agent";

/// ssh fails in place of asking for a password.
void ask_nothing(Words& shell) {
  if (!shell.empty() && std::filesystem::path(shell.front()).filename() == "ssh")
    shell.insert(shell.end(), {"-o", "BatchMode=yes"});
}

bool is_this_machine(const std::string& host) {
  const std::string self = host_name();
  return host == self || host == "localhost" || host.starts_with("127.") ||
         self.starts_with(host + ".");
}

}  // namespace

Words remote_shell_of(const std::string& given, const Words& mpirun, const HostSource& source,
                      const Environment& environment) {
  if (!given.empty()) return words_in(given);
  const auto named = std::find(mpirun.begin(), mpirun.end(), setting);
  if (named != mpirun.end() && named + 1 != mpirun.end()) return words_in(*(named + 1));
  const std::string agent = environment("OMPI_MCA_" + setting);
  if (!agent.empty()) return words_in(agent);
  if (source.kind == HostSource::Kind::slurm) return {};
  return {"ssh"};
}

UnreachableHosts::UnreachableHosts(std::set<pid_t>& family, const std::vector<Host>& hosts,
                                   const Words& shell, double longest_s) {
  if (shell.empty() || !is_executable(shell.front())) return;
  Words asking = shell;
  ask_nothing(asking);
  const ChildOptions options{.output = ChildOptions::Output::file,
                             .file = "/dev/null",
                             .limit_s = longest_s,
                             .ending_s = 0,
                             .family = &family};
  for (const Host& host : hosts) {
    if (is_this_machine(host.name)) continue;
    Words words = asking;
    words.insert(words.end(), {host.name, "true"});
    try {
      probes_.push_back({host.name, std::make_unique<Child>(words, options)});
    } catch (const Error&) {  // too many processes, for example: it is not asked, and not blamed
    }
  }
}

std::optional<std::vector<std::string>> UnreachableHosts::poll() {
  std::vector<std::string> found;
  bool all_have_ended = true;
  for (const Probe& probe : probes_) {
    const ChildEnd* end = probe.program->poll();
    all_have_ended = all_have_ended && end != nullptr;
    if (end != nullptr && !end->succeeded()) found.push_back(probe.host);
  }
  if (!all_have_ended) return std::nullopt;
  if (found.size() > 1 && found.size() == probes_.size()) found.clear();
  return found;
}

namespace {

constexpr double limit_s = 60;

bool is_in_range(const std::string& range, int number) {
  const std::size_t dash = range.find('-');
  const int first = std::atoi(range.c_str());
  const int last = dash == std::string::npos ? first : std::atoi(range.c_str() + dash + 1);
  return first <= number && number <= last;
}

}  // namespace

bool slurm_requeues(const std::string& config, int exit_code) {
  std::istringstream in(config);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key, equals, codes;
    if (!(words >> key >> equals >> codes) || key != "RequeueExit" || equals != "=") continue;
    std::istringstream ranges(codes);
    for (std::string range; std::getline(ranges, range, ',');)
      if (is_in_range(range, exit_code)) return true;
  }
  return false;
}

std::string requeue_slurm_job(const std::string& job, int exit_code) {
  const RunOptions options{.limit_s = limit_s, .ending_s = 1};
  try {
    if (slurm_requeues(run_program({"scontrol", "show", "config"}, options).output, exit_code))
      return str("Slurm queues job ", job, " again (RequeueExit)");
    ChildEnd end = run_program({"scontrol", "requeue", job}, options);
    while (end.output.ends_with('\n')) end.output.pop_back();
    if (!end.output.empty()) return str("scontrol requeue ", job, ": ", end.output);
    return end.why == ChildEnd::Why::by_itself
               ? str("queued Slurm job ", job, " again")
               : str("scontrol requeue ", job, ": no answer within ", limit_s, " s");
  } catch (const Error& error) {
    return str("scontrol requeue ", job, ": ", error.what());
  }
}

}  // namespace trireme::supervisor
