#include "launch/supervisor/machine/processes.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <unistd.h>

#include "runtime/core/process/processes.h"

namespace trireme::supervisor {
namespace {

constexpr std::chrono::milliseconds poll_interval(5);

bool lives(const ProcessStat& stat) { return stat.state != 'Z' && stat.state != 'X'; }
bool lives(pid_t id) {
  const auto stat = read_process_stat(id);
  return stat && lives(*stat);
}

}  // namespace

std::vector<pid_t> children_outside(const std::set<pid_t>& sessions, const std::string& spared) {
  std::vector<pid_t> found;
  for (const std::int64_t id : all_processes()) {
    const auto stat = read_process_stat(id);
    if (stat && lives(*stat) && stat->parent == ::getpid() &&
        !sessions.contains(static_cast<pid_t>(stat->session)) &&
        (spared.empty() || !has_variable(environment_of(id), spared)))
      found.push_back(static_cast<pid_t>(id));
  }
  return found;
}

std::vector<Descendant> descendants_of(pid_t root, const std::string& variable) {
  std::vector<Descendant> all;
  for (const std::int64_t id : all_processes()) {
    const auto stat = read_process_stat(id);
    if (stat && lives(*stat))
      all.push_back({static_cast<pid_t>(id), static_cast<pid_t>(stat->parent), ""});
  }
  std::vector<Descendant> found;
  std::set<pid_t> family = {root};
  for (bool grows = true; grows;) {
    grows = false;
    for (const Descendant& each : all)
      if (family.contains(each.parent) && family.insert(each.id).second) grows = true;
  }
  for (Descendant& each : all) {
    if (each.id == root || !family.contains(each.id)) continue;
    each.value = value_in(environment_of(each.id), variable);
    found.push_back(each);
  }
  std::sort(found.begin(), found.end(),
            [](const Descendant& a, const Descendant& b) { return a.id < b.id; });
  return found;
}

void signal_if_it_has(pid_t id, const std::string& variable, int signal) {
  signal_where(id, signal, [&](const std::string& found) { return has_variable(found, variable); });
}

int end_all_with(const std::string& variable) {
  std::set<pid_t> met;
  for (;;) {
    std::vector<pid_t> left;
    for (const std::int64_t each : all_processes()) {
      const auto id = static_cast<pid_t>(each);
      if (id != ::getpid() && has_variable(environment_of(id), variable) && lives(id))
        left.push_back(id);
    }
    if (left.empty()) return static_cast<int>(met.size());
    for (const pid_t id : left) {
      met.insert(id);
      signal_if_it_has(id, variable, SIGKILL);
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace trireme::supervisor
