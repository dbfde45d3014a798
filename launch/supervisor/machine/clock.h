// Seconds of the clock that never jumps, and of the one that does.
#pragma once

#include <chrono>
#include <ctime>

#include "trireme/core/dtype.h"

#include "runtime/core/seconds_since.h"

namespace trireme::supervisor {

using Clock = std::chrono::steady_clock;

/// Seconds since 1970, by the clock that people set.
inline Index date_now() { return Index{std::time(nullptr)}; }

}  // namespace trireme::supervisor
