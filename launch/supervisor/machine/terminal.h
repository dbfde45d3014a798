// Terminal: standard output and standard error of a supervisor, which must not wait for them:
// whoever reads may have stopped, as a terminal after Ctrl-S, a pager or a connection that stalls.
// A thread writes; what is not taken in time is dropped, and how much is said.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/core/process/terminal.h"

namespace trireme::supervisor {

class Terminal {
 public:
  /// The most bytes that wait for the reader.
  static constexpr std::size_t most_waiting = std::size_t{1} << 20;

  /// Both descriptors are borrowed.
  explicit Terminal(int output = 1, int errors = 2);
  /// Waits a second at most for a reader to take what is left.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Writes what a job has printed, unchanged. Returns at once, as does log().
  void show(std::string_view output);
  /// Writes "[10:14:55] trireme run: LINE" after the output before it. `line`: without its end.
  void log(const std::string& line);

 private:
  struct State;
  /// Shared with the thread, which may wait for its reader without an end.
  std::shared_ptr<State> state_;
};

// A block of text that is shown again and again: on a terminal in its own place.

/// Returns what takes the cursor to the beginning of `shown`, which was printed last, and clears
/// the screen from there on.
std::string back_over(std::string_view shown, TerminalSize size);

}  // namespace trireme::supervisor
