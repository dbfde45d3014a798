// Runs a program to its end, for a command that waits for it.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/process/child.h"
#include "runtime/core/process/end_signals.h"

namespace trireme {

struct RunOptions {
  double limit_s = 60, ending_s = 10;
  double leftover_s = 1;
  const EndSignals* signals = nullptr;  // after one it is asked to end
  std::size_t most_output = std::size_t{4} << 20;
  std::function<void(std::string_view line)> take_line = [](std::string_view) {};
  /// Called again and again while it runs, so that who waits for it sees that it does.
  std::function<void(double passed_s)> still_runs = [](double) {};
  double between_signs_s = 30;
};

/// Returns how it has ended and what it has printed. Throws: Error when it cannot be started.
ChildEnd run_program(const std::vector<std::string>& words, const RunOptions& options);

}  // namespace trireme
