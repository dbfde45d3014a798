#include "runtime/core/process/this_machine.h"

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  require_call(::gethostname(name, sizeof name) == 0, "gethostname");
  return name;
}

// A limit at any level holds for all levels below it, so all levels are read. What cannot be read
// is not a limit: a container sees its own group at the mount point under another path than /proc
// names, and nothing of those above.

namespace {

namespace fs = std::filesystem;

constexpr Index unlimited = std::numeric_limits<Index>::max();

/// A place where groups are seen, with the names of a group's files there, and of the lines of
/// memory.stat that sum up to page cache.
struct Hierarchy {
  enum class Version { one, two } version;
  const char* mount;
  const char* limit;
  const char* usage;
  std::array<std::string_view, 2> cache;
};
using Version = Hierarchy::Version;
constexpr Hierarchy hierarchies[] = {{Version::two,
                                      "/sys/fs/cgroup",
                                      "memory.max",
                                      "memory.current",
                                      {"inactive_file", "active_file"}},
                                     {Version::two,
                                      "/sys/fs/cgroup/unified",
                                      "memory.max",
                                      "memory.current",
                                      {"inactive_file", "active_file"}},
                                     {Version::one,
                                      "/sys/fs/cgroup/memory",
                                      "memory.limit_in_bytes",
                                      "memory.usage_in_bytes",
                                      {"total_inactive_file", "total_active_file"}}};

/// The number that a file consists of; `otherwise` when there is none ("max", no such file).
Index number_in(const fs::path& file, Index otherwise) {
  std::ifstream in(file);
  Index number = 0;
  return in >> number ? number : otherwise;
}

Index page_cache(const fs::path& group, const Hierarchy& h) {
  std::ifstream in(group / "memory.stat");
  Index sum = 0, bytes = 0;
  for (std::string key; in >> key >> bytes;)
    if (key == h.cache[0] || key == h.cache[1]) sum += bytes;
  return sum;
}

Index free_in_group(const fs::path& group, const Hierarchy& h) {
  const Index limit = number_in(group / h.limit, unlimited);
  if (limit == unlimited) return unlimited;
  const Index used = number_in(group / h.usage, 0);
  return std::max<Index>(limit - std::max<Index>(used - page_cache(group, h), 0), 0);
}

/// The least that `group` and those above it leave.
Index free_on_the_way_up(const std::string& root, fs::path group, Version version) {
  Index least = unlimited;
  for (;; group = group.parent_path()) {
    for (const Hierarchy& h : hierarchies)
      if (h.version == version)
        least = std::min(least, free_in_group(fs::path(root + h.mount) / group.relative_path(), h));
    if (group == group.parent_path()) return least;
  }
}

/// Lines of /proc/self/cgroup: "0::/path" (version 2), "4:cpu,memory:/path" (version 1).
Index free_in_groups(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  Index least = unlimited;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string number, controllers, group;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, group);
    if (number == "0" && controllers.empty())
      least = std::min(least, free_on_the_way_up(root, group, Version::two));
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      least = std::min(least, free_on_the_way_up(root, group, Version::one));
  }
  return least;
}

Index free_in_system(const std::string& root) {
  std::ifstream in(root + "/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string key;
    Index kilobytes = 0;
    if (fields >> key >> kilobytes && key == "MemAvailable:") return kilobytes * 1024;
  }
  return static_cast<Index>(::sysconf(_SC_AVPHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

Index free_memory(const std::string& root) {
  return std::min(free_in_system(root), free_in_groups(root));
}

}  // namespace trireme
