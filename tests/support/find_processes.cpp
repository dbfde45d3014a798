#include "tests/support/find_processes.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "trireme/core/error.h"

#include "tests/support/process.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

struct Process {
  pid_t id, parent;
  std::string name;
};

/// Of this system, but for zombies.
std::vector<Process> all_processes() {
  std::vector<Process> all;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string number = entry.path().filename().string();
    if (number.find_first_not_of("0123456789") != number.npos) continue;
    std::ifstream in(entry.path() / "stat");
    std::string text(1024, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    const std::size_t open = text.find('('), close = text.rfind(')');
    if (close == text.npos) continue;
    char state = 0;
    pid_t parent = 0;
    std::istringstream(text.substr(close + 1)) >> state >> parent;
    if (state != 'Z' && state != 'X')
      all.push_back(
          {static_cast<pid_t>(std::stol(number)), parent, text.substr(open + 1, close - open - 1)});
  }
  return all;
}

}  // namespace

std::vector<pid_t> children(pid_t parent, const std::string& name) {
  std::vector<pid_t> found;
  for (const Process& process : all_processes())
    if (process.parent == parent && (name.empty() || process.name == name))
      found.push_back(process.id);
  return found;
}

int processes_with(const std::string& text) {
  int found = 0;
  for (const Process& process : all_processes())
    found += read_text(str("/proc/", process.id, "/cmdline")).find(text) != std::string::npos;
  return found;
}

}  // namespace trireme::test
