// Problems: the mistakes of a configuration, collected so that all of them are reported at once
// (design invariant 6).
#pragma once

#include <string>
#include <vector>

#include "trireme/core/error.h"

namespace trireme {

/// Exit codes that scripts may rely on.
enum class ExitCode { success = 0, failure = 1, configuration = 64 };

/// Each entry names the option or file, its value, and what would be right.
class Problems {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    all_.push_back(str(parts...));
  }
  /// Adds what `f` throws.
  template <class F>
  void collect(F&& f) {
    try {
      f();
    } catch (const Error& error) {
      all_.push_back(error.what());
    }
  }
  bool empty() const { return all_.empty(); }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

/// A configuration that cannot run; known to all ranks alike. run() prints it once and returns
/// ExitCode::configuration.
class ConfigurationError : public Error {
 public:
  explicit ConfigurationError(const std::string& message,
                              std::source_location where = std::source_location::current())
      : Error(message, where) {}
};

/// A failure at run time that all ranks know of: run() prints it once and returns ExitCode::failure. Any other
/// exception is one rank's own; that rank prints it and ends the others.
class JobError : public Error {
 public:
  explicit JobError(const std::string& message,
                    std::source_location where = std::source_location::current())
      : Error(message, where) {}
};

}  // namespace trireme
