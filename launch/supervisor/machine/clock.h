// Seconds of the clock that never jumps.
#pragma once

#include <chrono>

#include "runtime/core/seconds_since.h"

namespace trireme::supervisor {

using Clock = std::chrono::steady_clock;

/// Since a time that does not change while this process lives.
inline double now() { return seconds_since({}); }

}  // namespace trireme::supervisor
