#include "runtime/observe/process_state.h"

#include <charconv>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace trireme::observe {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool parse_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::int64_t tracer_of(std::int64_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  constexpr std::string_view key = "TracerPid:\t";
  for (std::string line; std::getline(status, line);) {
    std::int64_t tracer = 0;
    if (line.starts_with(key) && parse_number(std::string_view(line).substr(key.size()), tracer))
      return tracer;
  }
  return 0;
}

}  // namespace

std::optional<ProcessState> parse_process_stat(std::string_view line) {
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string_view::npos) return {};
  line.remove_prefix(name_end + 2);
  constexpr int state_field = 3, started_field = 22;
  ProcessState process;
  for (int field = state_field; field <= started_field; ++field) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    if (field == state_field && word.size() == 1) process.state = word[0];
    if (field == started_field && !parse_number(word, process.started_ticks)) return {};
    if (end == std::string_view::npos && field < started_field) return {};
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  }
  return process;
}

std::optional<ProcessState> read_process_state(std::int64_t pid) {
  auto process = parse_process_stat(first_line(fmt::format("/proc/{}/stat", pid)));
  if (!process) return {};
  process->tracer_pid = tracer_of(pid);
  process->wait_channel = first_line(fmt::format("/proc/{}/wchan", pid));
  if (process->wait_channel == "0") process->wait_channel.clear();
  return process;
}

}  // namespace trireme::observe
