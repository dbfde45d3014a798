#include "launch/preflight/launch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/preflight/mark.h"
#include "launch/preflight/stopwatch.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/processes.h"

namespace trireme::preflight {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using supervisor::Words;

constexpr std::size_t most_output = std::size_t{64} << 20;

/// A directory for what mpirun writes, removed with it.
class PrivateDirectory {
 public:
  PrivateDirectory() {
    std::string pattern = (fs::temp_directory_path() / "trireme-preflight-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, pattern, ": ", std::strerror(errno));
    path_ = pattern;
  }
  /// Daemons of simulated nodes may still remove their files when mpirun has ended.
  ~PrivateDirectory() {
    std::error_code failed;
    for (int tries = 0; tries < most_tries; ++tries) {
      fs::remove_all(path_, failed);
      if (!failed) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  static constexpr int most_tries = 100;
  std::string path_;
};

class Child {
 public:
  Child(const Words& words, const std::function<void(std::string_view)>& take_line,
        const EndSignals* signals)
      : take_line_(take_line), signals_(signals) {
    const supervisor::ProgramWithOutput started = supervisor::start_with_output(words);
    id_ = started.id;
    pipe_ = started.output;
  }
  ~Child() { ::close(pipe_); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Until it closes its output, for so long, or until a signal comes: then it is asked to end, and
  /// after 3 s killed.
  bool read(double seconds, std::string& output) {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    bool in_time = read_until(until, output);
    if (!in_time) {
      signals_ = nullptr;
      ::kill(id_, SIGTERM);  // mpirun then ends its ranks
      if (!read_until(Clock::now() + std::chrono::seconds(3), output)) ::kill(id_, SIGKILL);
    }
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  void take_lines(const std::string& output) {
    for (std::size_t end; (end = output.find('\n', taken_)) != std::string::npos; taken_ = end + 1)
      take_line_(std::string_view(output).substr(taken_, end - taken_));
  }
  bool read_until(std::chrono::time_point<Clock, std::chrono::duration<double>> until,
                  std::string& output) {
    char buffer[1 << 16];
    for (;;) {
      const double left = std::chrono::duration<double>(until - Clock::now()).count();
      if (left <= 0) return false;
      // A negative descriptor is left out.
      pollfd in[2] = {{pipe_, POLLIN, 0}, {signals_ == nullptr ? -1 : signals_->file(), POLLIN, 0}};
      if (::poll(in, 2, static_cast<int>(left * 1e3) + 1) <= 0) continue;
      if (in[1].revents != 0) return false;
      if (in[0].revents == 0) continue;
      const ssize_t bytes = ::read(pipe_, buffer, sizeof buffer);
      if (bytes == 0) return true;
      if (bytes <= 0 || output.size() >= most_output) continue;
      output.append(buffer, static_cast<std::size_t>(bytes));
      take_lines(output);
    }
  }

  const std::function<void(std::string_view)>& take_line_;
  const EndSignals* signals_;
  std::size_t taken_ = 0;  // of the output
  int pipe_ = -1;
  pid_t id_ = -1;
};

/// Which check each process is in, by the lines that it prints.
class Progress {
 public:
  explicit Progress(const Launch& launch) : launch_(launch) {}
  void take(std::string_view line) {
    if (!line.starts_with(progress_mark)) {
      if (!line.starts_with(mark)) others_ += std::string(line) + "\n";
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
  const std::string& others() const { return others_; }

 private:
  const Launch& launch_;
  std::map<std::string, std::string> at_;
  std::set<std::string> known_;
  std::string others_;  // lines of anything else
};

/// What the first rank that failed says, or the last lines: mpirun explains at length that it ends.
std::string reason_in(const std::string& text) {
  constexpr std::size_t most = 600;
  if (const std::size_t own = text.find("trireme_preflight[rank "); own != std::string::npos)
    return text.substr(own, std::min(most, text.find('\n', own) - own));
  const std::size_t end = text.find_last_not_of(" \n-");
  if (end == std::string::npos) return "it printed nothing";
  std::string last = text.substr(end + 1 > most ? end + 1 - most : 0, std::min(most, end + 1));
  for (char& c : last)
    if (c == '\n') c = ' ';
  return last;
}

std::string names_of(const std::vector<supervisor::Host>& hosts) {
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

std::string program_path() {
  const std::string path =
      (fs::read_symlink("/proc/self/exe").parent_path() / "trireme_preflight").string();
  require(supervisor::is_executable(path), path, " is not there: it is installed with trireme");
  return path;
}

std::optional<Report> measure(const Launch& launch, std::string& why) {
  if (launch.signals != nullptr && launch.signals->came()) return std::nullopt;
  const PrivateDirectory scratch;
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
  if (!launch.hosts.empty()) program.insert(program.end(), {"--names", names_of(launch.hosts)});
  if (launch.gpus > 0) program.insert(program.end(), {"--gpus", str(launch.gpus)});
  Progress progress(launch);
  const std::function<void(std::string_view)> take = [&](std::string_view line) {
    progress.take(line);
  };
  Child child(supervisor::mpirun_words(start, plan, program), take, launch.signals);
  std::string output;
  const Stopwatch watch;
  const bool ended_well = child.read(launch.seconds, output);
  const std::size_t begin = output.find(mark);
  const std::size_t end = begin == std::string::npos ? begin : output.find('\n', begin);
  if (ended_well && end != std::string::npos)
    return report_of(parse_json(
        std::string_view(output).substr(begin + mark.size(), end - begin - mark.size())));
  const bool late = watch.seconds() >= launch.seconds;
  const std::string printed = reason_in(progress.others());
  why =
      late ? fmt::format("no end after {:.0f} s, {}; {}", launch.seconds, progress.where(), printed)
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
