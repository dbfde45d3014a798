#include "launch/preflight/launch.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/preflight/mark.h"
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
  ~PrivateDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Child {
 public:
  explicit Child(const Words& words) {
    int ends[2];
    require(::pipe2(ends, O_CLOEXEC) == 0, "pipe: ", std::strerror(errno));
    pipe_ = ends[0];
    try {
      id_ = supervisor::start_program(words, {}, ends[1], true);
    } catch (...) {
      ::close(ends[0]);
      ::close(ends[1]);
      throw;
    }
    ::close(ends[1]);
  }
  ~Child() { ::close(pipe_); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Until it closes its output, or for so long: then it is asked to end, and after 3 s killed.
  bool read(double seconds, std::string& output) {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    bool in_time = read_until(until, output);
    if (!in_time) {
      ::kill(id_, SIGTERM);  // mpirun then ends its ranks
      if (!read_until(Clock::now() + std::chrono::seconds(3), output)) ::kill(id_, SIGKILL);
    }
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  bool read_until(std::chrono::time_point<Clock, std::chrono::duration<double>> until,
                  std::string& output) {
    char buffer[1 << 16];
    for (;;) {
      const double left = std::chrono::duration<double>(until - Clock::now()).count();
      if (left <= 0) return false;
      pollfd in = {pipe_, POLLIN, 0};
      if (::poll(&in, 1, static_cast<int>(left * 1e3) + 1) <= 0) continue;
      const ssize_t bytes = ::read(pipe_, buffer, sizeof buffer);
      if (bytes == 0) return true;
      if (bytes > 0 && output.size() < most_output)
        output.append(buffer, static_cast<std::size_t>(bytes));
    }
  }

  int pipe_ = -1;
  pid_t id_ = -1;
};

std::string last_lines(const std::string& text) {
  constexpr std::size_t most = 600;
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
  node.kind = "unknown";
  node.faults.push_back(fault);
  return node;
}

}  // namespace

std::string program_path() {
  const std::string path =
      (fs::read_symlink("/proc/self/exe").parent_path() / "trireme_preflight").string();
  require(supervisor::is_executable(path), path, " is not there: it is installed with trireme");
  return path;
}

std::optional<Report> measure(const Launch& launch, std::string& why) {
  const PrivateDirectory scratch;
  supervisor::Launch start;
  start.mpirun = launch.mpirun;
  start.scratch = scratch.path();
  start.shared = scratch.path();
  start.remote_shell = launch.remote_shell;
  supervisor::AttemptPlan plan;
  plan.hosts = launch.hosts;
  plan.ranks = std::max<Index>(1, std::ssize(launch.hosts));
  Words program = {program_path()};
  program.insert(program.end(), launch.options.begin(), launch.options.end());
  if (!launch.hosts.empty()) program.insert(program.end(), {"--names", names_of(launch.hosts)});
  Child child(supervisor::mpirun_words(start, plan, program));
  std::string output;
  const bool ended_well = child.read(launch.seconds, output);
  const std::size_t begin = output.find(mark);
  const std::size_t end = begin == std::string::npos ? begin : output.find('\n', begin);
  if (ended_well && end != std::string::npos)
    return report_of(parse_json(
        std::string_view(output).substr(begin + mark.size(), end - begin - mark.size())));
  why = last_lines(output);
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
  bool one_failed = false;
  for (const supervisor::Host& host : launch.hosts) {
    Launch alone = launch;
    alone.hosts = {host};
    std::string reason;
    const auto report = measure(alone, reason);
    one_failed = one_failed || !report;
    all.nodes.push_back(report ? report->nodes.front()
                               : bad_node(host.name, "the preflight fails on it: " + reason));
  }
  if (!one_failed)
    for (Node& node : all.nodes)
      node.faults.push_back("works alone, but not together with the others: " + why);
  return all;
}

}  // namespace trireme::preflight
