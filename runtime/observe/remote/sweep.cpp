#include "runtime/observe/remote/sweep.h"

#include <chrono>
#include <compare>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"
#include "runtime/core/process/processes.h"
#include "runtime/core/seconds_since.h"
#include "runtime/observe/gpu_health/nvml.h"

namespace trireme::observe {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

bool is_earlier(const RunAttempt& attempt, const std::string& environment) {
  if (attempt.key.empty() || value_in(environment, "TRIREME_RUN_KEY") != attempt.key) return false;
  const auto number = parse_number<std::int64_t>(value_in(environment, "TRIREME_ATTEMPT"));
  return number && *number < attempt.number;
}

struct Process {
  std::int64_t pid, started_ticks;  // a pid alone may soon be that of another process
  friend auto operator<=>(const Process&, const Process&) = default;
};

bool lives(const ProcessStat& stat) { return stat.state != 'Z' && stat.state != 'X'; }
bool lives(const Process& process) {
  const auto stat = read_process_stat(process.pid);
  return stat && stat->started_ticks == process.started_ticks && lives(*stat);
}

std::vector<Process> earlier_processes(const RunAttempt& attempt) {
  std::vector<Process> found;
  for (const std::int64_t pid : all_processes()) {
    if (pid == ::getpid() || !is_earlier(attempt, environment_of(pid))) continue;
    if (const auto stat = read_process_stat(pid); stat && lives(*stat))
      found.push_back({pid, stat->started_ticks});
  }
  return found;
}

}  // namespace

Sweep end_earlier_attempts(const RunAttempt& attempt, double longest_s,
                           const std::function<void()>& waits) {
  constexpr std::chrono::milliseconds pause(10);
  std::set<Process> met;
  const auto began = Clock::now();
  for (;;) {
    // Also those that one of them has started meanwhile.
    for (const Process& process : earlier_processes(attempt)) {
      met.insert(process);
      signal_where(process.pid, SIGKILL,
                   [&](const std::string& found) { return is_earlier(attempt, found); });
    }
    // While a killed process gives back what it has, its environment is gone before it is.
    int left = 0;
    for (const Process& process : met) left += lives(process) ? 1 : 0;
    if (left == 0 || seconds_since(began) >= longest_s)
      return {static_cast<int>(met.size()) - left, left};
    waits();
    std::this_thread::sleep_for(pause);
  }
}

void remove_earlier_directories(const RunAttempt& attempt, const std::string& directory) {
  const std::string start = "trireme-" + attempt.key + "-a";
  std::vector<fs::path> earlier;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(directory).parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (attempt.key.empty() || !name.starts_with(start)) continue;
    const std::string rest = name.substr(start.size());  // "7", or "7-shared"
    const auto number = parse_number<std::int64_t>(rest.substr(0, rest.find('-')));
    if (number && *number < attempt.number) earlier.push_back(entry.path());
  }
  for (const fs::path& path : earlier) fs::remove_all(path, ignored);
}

void await_free_memory(const std::function<std::optional<std::uint64_t>()>& used, double pause_s,
                       double longest_s, const std::function<void()>& waits) {
  const auto began = Clock::now();
  for (auto before = used(); before && seconds_since(began) < longest_s;) {
    waits();
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    const auto now = used();
    if (!now || *now >= *before) return;
    before = now;
  }
}

void await_free_gpus(double longest_s, const std::function<void()>& waits) {
  constexpr double pause_s = 0.5;
  std::string why_not;
  const auto nvml = Nvml::open(why_not);
  if (nvml == nullptr || nvml->gpus() == 0) return;
  const auto used = [&]() -> std::optional<std::uint64_t> {
    std::uint64_t sum = 0;
    for (int gpu = 0; gpu < nvml->gpus(); ++gpu) sum += nvml->used_memory(gpu).value_or(0);
    return sum;
  };
  await_free_memory(used, pause_s, longest_s, waits);
}

}  // namespace trireme::observe
