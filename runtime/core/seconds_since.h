// seconds_since: how long ago it was, by the clock that never jumps.
//
// Not installed; modules above may include it.
#pragma once

#include <chrono>

namespace trireme {

inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace trireme
