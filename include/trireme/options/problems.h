// Problems: the mistakes of a configuration, collected so that all of them are reported at once
// (invariant 6 of docs/concepts/architecture.md).
#pragma once

#include <string>
#include <vector>

#include "trireme/core/error.h"

namespace trireme {

/// Exit codes that scripts may rely on.
enum class ExitCode {
  success = 0,
  failure = 1,         // at run time; or training is finished, but the last saves failed
  configuration = 64,  // cannot run: a restart would not help
  diverged = 65,       // --max-skipped steps in a row made no update: a restart would not help
  corrupted = 66,      // silent corruption: replicas differ, or a step computed twice does
  stopped = 75         // saved; start the job again
};

/// Each entry names the option or file, its value, and what would be right.
class Problems {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    all_.push_back(str(parts...));
  }
  /// Adds the message of what `f` throws.
  template <class F>
  void collect(F&& f) {
    try {
      f();
    } catch (const std::exception& error) {
      all_.emplace_back(error.what());
    }
  }
  /// One for each line of `text`, behind `title`.
  void add_lines(const std::string& title, const std::string& text);
  bool empty() const { return all_.empty(); }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

/// A configuration that cannot run. All ranks know of it. run() prints it once and returns
/// ExitCode::configuration.
class ConfigurationError : public Error {
 public:
  explicit ConfigurationError(const std::string& message,
                              std::source_location where = std::source_location::current())
      : Error(message, where) {}
};

/// A failure at run time that all ranks know of: run() prints it once and returns its code. Any
/// other exception is one rank's own; that rank prints it and ends the others.
class JobError : public Error {
 public:
  explicit JobError(const std::string& message, ExitCode code = ExitCode::failure,
                    std::source_location where = std::source_location::current())
      : Error(message, where), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// All ranks have agreed to stop, and the last checkpoint is durable. Trainer::fit throws it;
/// programs do not catch it, so that their work after training is left to the job that resumes.
/// run() returns ExitCode::stopped for it. Not a std::exception, so that no handler mistakes it for
/// a failure.
struct Stopped {};

}  // namespace trireme
