// How benchmarks measure: milliseconds of a call, and the median of rounds.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "runtime/core/median.h"

namespace trireme {

inline double ms_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace trireme
