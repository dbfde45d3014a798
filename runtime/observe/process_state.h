// What the kernel says about a process of this machine.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::observe {

struct ProcessState {
  char state = '?';                 // R, S, D, T (stopped), t (traced), Z (zombie), X
  std::int64_t started_ticks = -1;  // since the machine started: distinguishes processes of one pid
  std::int64_t tracer_pid = 0;      // of a debugger; 0: none
  std::string wait_channel;         // kernel function that it sleeps in; "" where that is hidden
};

/// Nothing when there is no such process, or no /proc.
std::optional<ProcessState> read_process_state(std::int64_t pid);

/// From a line of /proc/PID/stat: state and start. The name of the program, in brackets, may hold
/// anything (proc(5)). Nothing when it is no such line.
std::optional<ProcessState> parse_process_stat(std::string_view line);

}  // namespace trireme::observe
