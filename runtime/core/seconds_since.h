// Seconds by the clock that never jumps.
//
// Not installed; modules above may include it.
#pragma once

#include <chrono>

namespace trireme {

/// Seconds since a time that does not change while this process lives.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// How long ago it was.
inline double seconds_since(double then) { return steady_seconds() - then; }
inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace trireme
