#include "runtime/observe/process_state.h"

#include <fstream>
#include <string>

#include <fmt/format.h>

#include "runtime/core/parse_number.h"
#include "runtime/core/process/processes.h"

namespace trireme::observe {
namespace {

std::int64_t tracer_of(std::int64_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  constexpr std::string_view key = "TracerPid:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key))
      return parse_number<std::int64_t>(std::string_view(line).substr(key.size())).value_or(0);
  }
  return 0;
}

}  // namespace

std::optional<ProcessState> read_process_state(std::int64_t pid) {
  const auto stat = read_process_stat(pid);
  if (!stat) return {};
  ProcessState process;
  process.state = stat->state;
  process.started_ticks = stat->started_ticks;
  process.tracer_pid = tracer_of(pid);
  process.wait_channel = first_line(fmt::format("/proc/{}/wchan", pid));
  if (process.wait_channel == "0") process.wait_channel.clear();
  return process;
}

}  // namespace trireme::observe
