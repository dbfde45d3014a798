// Seconds of the clock that never jumps.
#pragma once

#include <chrono>

namespace trireme::supervisor {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// Since a time that does not change while this process lives.
inline double now() { return seconds_since({}); }

}  // namespace trireme::supervisor
