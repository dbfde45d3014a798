// What the kernel says about a process of this machine.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trireme::observe {

struct ProcessState {
  char state = '?';                 // R, S, D, T (stopped), t (traced), Z (zombie), X
  std::int64_t started_ticks = -1;  // since the machine started: distinguishes processes of one pid
  std::int64_t tracer_pid = 0;      // pid of a debugger; 0: none
  std::string wait_channel;         // kernel function that it sleeps in; "" where that is hidden
};

/// Returns nothing when there is no such process, or no /proc.
std::optional<ProcessState> read_process_state(std::int64_t pid);

}  // namespace trireme::observe
