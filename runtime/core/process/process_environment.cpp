#include "runtime/core/process/process_environment.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/syscall.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"
#include "runtime/core/require_call.h"

namespace trireme {

std::vector<std::int64_t> all_processes() {
  std::vector<std::int64_t> found;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", unreadable))
    if (const auto pid = parse_number<std::int64_t>(entry.path().filename().string()))
      found.push_back(*pid);
  // Without a list no process would seem to be left.
  require(!unreadable, "/proc cannot be read: ", unreadable.message());
  return found;
}

std::string environment_of(std::int64_t pid) {
  std::ifstream in(str("/proc/", pid, "/environ"), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return '\0' + text.str();
}

bool has_variable(const std::string& environment, const std::string& variable) {
  return environment.find('\0' + variable + '\0') != std::string::npos;
}

std::string value_in(const std::string& environment, const std::string& name) {
  const std::string mark = '\0' + name + '=';
  const std::size_t at = environment.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + mark.size();
  return environment.substr(begin, environment.find('\0', begin) - begin);
}

void signal_where(std::int64_t pid, int signal,
                  const std::function<bool(const std::string& environment)>& is_meant) {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  require_call(process >= 0 || (errno != ENOSYS && errno != EPERM), "process ", pid,
               " cannot be ended: pidfd_open");
  if (process < 0) return;
  if (is_meant(environment_of(pid))) ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0);
  ::close(process);
}

}  // namespace trireme
