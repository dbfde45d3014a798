// What commands that read steps have in common: which step a word names, reader threads, and the
// progress of long work on a terminal.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "trireme/options/command_line.h"

#include "runtime/store/inspect/inspect.h"
#include "runtime/store/safetensors/element.h"

namespace trireme {

/// The step that "DIR", "DIR:STEP" or the directory of a step names. `step`: >= 0: that one.
OpenedStep step_at(std::string path, Index step = -1);

Index default_threads();
void declare_threads(CommandLine& command, Index& threads);
void declare_dtype(CommandLine& command, safetensors::Element& element);

/// The progress line of long work on a terminal; nothing without a terminal.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Bytes; `total` 0: not known. From any thread.
  void show(Index done, Index total);

 private:
  std::string what_;
  bool shown_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), next_{};
};

}  // namespace trireme
