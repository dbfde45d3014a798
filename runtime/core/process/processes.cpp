#include "runtime/core/process/processes.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"
#include "runtime/core/require_call.h"

namespace trireme {
namespace {

bool parse_field(std::string_view text, std::int64_t& value) {
  const auto number = parse_number<std::int64_t>(text);
  if (number) value = *number;
  return number.has_value();
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  constexpr int state_field = 3, parent_field = 4, session_field = 6, started_field = 22;
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string_view::npos) return {};
  text.remove_prefix(name_end + 2);
  ProcessStat stat;
  for (int field = state_field; field <= started_field; ++field) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (field == state_field) {
      if (word.size() != 1) return {};
      stat.state = word[0];
    }
    if (field == parent_field && !parse_field(word, stat.parent)) return {};
    if (field == session_field && !parse_field(word, stat.session)) return {};
    if (field == started_field && !parse_field(word, stat.started_ticks)) return {};
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return stat;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<ProcessStat> read_process_stat(std::int64_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  char content[1024];  // a program's name may hold line ends: not by std::getline()
  in.read(content, sizeof content);
  return parse_process_stat({content, static_cast<std::size_t>(in.gcount())});
}

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
