// What the kernel says about a process of this machine.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace trireme
