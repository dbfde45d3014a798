// Runs a program to its end, for a command that waits for it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/supervisor/machine/end_signals.h"

namespace trireme::supervisor {

struct RunOptions {
  double limit_s = 60;                  // then it is asked to end (SIGTERM)
  double ending_s = 10;                 // and then killed, with its process group
  double leftover_s = 1;                // for processes that it leaves, to end by themselves
  const EndSignals* signals = nullptr;  // after one it is asked to end as well
  std::size_t most_output = std::size_t{4} << 20;  // that is kept: the beginning and the end
  std::function<void(std::string_view line)> take_line = [](std::string_view) {};
  /// Called again and again while it runs, so that who waits for it sees that it does.
  std::function<void(double passed_s)> still_runs = [](double) {};
  double between_signs_s = 30;
};

struct ProgramEnd {
  enum class Why { by_itself, late, signal };
  Why why = Why::by_itself;
  std::optional<int> code;  // nothing: it was ended, or a signal ended it
  std::string output;       // standard output and error

  bool succeeded() const { return why == Why::by_itself && code == 0; }
};

/// In a session of its own. It counts as ended when its process has, not when its output is closed:
/// it may close that before, and a process that it leaves may keep it open. Such a process is
/// killed after a while, where it is in the process group of the program. Throws: Error
/// when it cannot be started.
ProgramEnd run_program(const std::vector<std::string>& words, const RunOptions& options);

}  // namespace trireme::supervisor
