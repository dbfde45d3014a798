#include "launch/supervisor/machine/post_mortem.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr Index kept_attempts = 10, kept_cores = 2;
const std::string prefix = "core";

std::vector<fs::path> cores_in(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing))
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  return found;
}

template <class T>
bool read_at(std::ifstream& in, std::uint64_t offset, T* data, std::size_t count) {
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(data), static_cast<std::streamsize>(count * sizeof(T)));
  return in.good();
}

/// What the core has of writable memory, in the order of addresses.
std::vector<Elf64_Phdr> writable_memory(std::ifstream& in) {
  Elf64_Ehdr head;
  if (!read_at(in, 0, &head, 1) || !std::equal(head.e_ident, head.e_ident + SELFMAG, ELFMAG) ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_type != ET_CORE ||
      head.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  std::vector<Elf64_Phdr> memory(head.e_phnum);
  if (!read_at(in, head.e_phoff, memory.data(), memory.size())) return {};
  std::erase_if(memory, [](const Elf64_Phdr& part) {
    return part.p_type != PT_LOAD || part.p_filesz == 0 || (part.p_flags & PF_W) == 0;
  });
  return memory;
}

bool is_new_and_own(const std::string& path, Index since) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         info.st_mtime >= since;
}

}  // namespace

/// The environment is at the end of the stack, the last writable memory of a process.
bool is_core_of(const std::string& path, const std::string& variable) {
  constexpr std::size_t most_parts = 3;
  constexpr std::uint64_t most_bytes = 8 << 20;  // of each; a longer environment is not possible
  std::ifstream in(path, std::ios::binary);
  std::vector<Elf64_Phdr> memory = writable_memory(in);
  std::reverse(memory.begin(), memory.end());
  memory.resize(std::min(memory.size(), most_parts));
  const std::string wanted = '\0' + variable + '\0';
  for (const Elf64_Phdr& part : memory) {
    std::string bytes(std::min<std::uint64_t>(part.p_filesz, most_bytes), '\0');
    if (!read_at(in, part.p_offset + part.p_filesz - bytes.size(), bytes.data(), bytes.size()))
      return false;
    if (bytes.find(wanted) != std::string::npos) return true;
  }
  return false;
}

std::vector<std::string> keep_cores(const std::string& from, Index since,
                                    const std::string& variable, const Paths& paths,
                                    Index attempt) {
  std::vector<std::string> stay;
  for (const fs::path& entry : cores_in(from)) {
    if (!is_new_and_own(entry.string(), since) || !is_core_of(entry.string(), variable)) continue;
    std::error_code failed;
    const std::string folder = paths.attempt(attempt);
    fs::rename(entry, fs::path(folder) / entry.filename(), failed);
    if (failed)
      stay.push_back(str("the core file ", fs::absolute(entry).lexically_normal().string(),
                         " stays there: it cannot be moved to ", folder, ": ", failed.message()));
  }
  for (Index old = std::max<Index>(1, attempt - kept_attempts); old <= attempt - kept_cores; ++old)
    for (const fs::path& entry : cores_in(paths.attempt(old))) {
      std::error_code ignored;
      fs::remove(entry, ignored);
    }
  return stay;
}

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
