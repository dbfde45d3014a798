// Processes of this machine: what the kernel says of each, and which have what in their
// environment, which distinguishes those of a run from all others.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// What /proc/PID/stat says of a process (proc(5)).
struct ProcessStat {
  char state = '?';  // R, S, D, T (stopped), t (traced), Z (zombie), X
  std::int64_t parent = -1, session = -1;
  std::int64_t started_ticks = -1;  // since the machine started: distinguishes processes of one pid
};

/// Returns the first line of a file, as of /proc; "" where it cannot be read.
std::string first_line(const std::string& path);

/// Returns nothing when there is no such process, or no /proc.
std::optional<ProcessStat> read_process_stat(std::int64_t pid);

/// Parses the content of /proc/PID/stat. The name of the program, in brackets, may hold anything.
/// Returns nothing when it is no such content.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

/// Returns the numbers of all processes. Throws: Error where /proc cannot be read.
std::vector<std::int64_t> all_processes();

/// Returns "\0NAME=VALUE\0NAME=VALUE\0", as it was when the process began; no variables where there
/// is no such process, or it is that of another user.
std::string environment_of(std::int64_t pid);
/// Returns whether an environment has `variable`, "NAME=VALUE".
bool has_variable(const std::string& environment, const std::string& variable);
/// Returns the value of a variable; empty where it is missing.
std::string value_in(const std::string& environment, const std::string& name);

/// Sends a signal, only if `is_meant` holds of the environment once a descriptor holds the number
/// of the process. Throws: Error where the kernel, or a filter of system calls, allows no such
/// descriptor.
void signal_where(std::int64_t pid, int signal,
                  const std::function<bool(const std::string& environment)>& is_meant);

}  // namespace trireme
