// How long a check has taken: each has a time after which it stops.
#pragma once

#include <chrono>

namespace trireme::preflight {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace trireme::preflight
