#include "launch/supervisor/machine/oom_kills.h"

#include <fstream>
#include <sstream>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

/// The number behind "oom_kill" on a line of its own.
std::optional<Index> oom_kill_in(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    Index number = 0;
    if (words >> key >> number && key == "oom_kill") return number;
  }
  return std::nullopt;
}

/// The file that counts for the control group of this process: of version 2 ("0::/PATH"), or of
/// version 1, where memory is a hierarchy of its own ("4:memory:/PATH").
std::optional<Index> of_group(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::optional<Index> found;
  for (std::string line; !found && std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty())
      found = oom_kill_in(root + "/sys/fs/cgroup" + path + "/memory.events");
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      found = oom_kill_in(root + "/sys/fs/cgroup/memory" + path + "/memory.oom_control");
  }
  return found;
}

Index more(const std::optional<Index>& before, const std::optional<Index>& after) {
  return before && after ? *after - *before : 0;
}

}  // namespace

OomKills count_oom_kills(const std::string& root) {
  return {of_group(root), oom_kill_in(root + "/proc/vmstat")};
}

std::string new_oom_kills(const OomKills& before, const OomKills& after) {
  if (before.of_group && after.of_group)
    return more(before.of_group, after.of_group) > 0
               ? "the kernel ended a process of the job for lack of memory (cgroup)"
               : "";
  return more(before.of_machine, after.of_machine) > 0
             ? "the kernel ended a process of this machine for lack of memory (/proc/vmstat)"
             : "";
}

}  // namespace trireme::supervisor
