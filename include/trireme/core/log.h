// Log: messages for people. Rank 0 writes to stdout. Warnings of any rank go to stderr, prefixed
// with the rank. It is passed as an object, never a global.
#pragma once

#include <string_view>

namespace trireme {

enum class LogLevel { quiet, info, debug };
const char* name(LogLevel level);

class Log {
 public:
  Log(int rank, LogLevel level) : rank_(rank), level_(level) {}
  int rank() const { return rank_; }
  /// "# text" on rank 0.
  void info(std::string_view text) const;
  void debug(std::string_view text) const;
  /// Writes a line unchanged (tables, progress) on rank 0.
  void line(std::string_view text) const;
  /// "trireme[rank 3] warning: text" on stderr.
  void warning(std::string_view text) const;

 private:
  int rank_;
  LogLevel level_;
};

}  // namespace trireme
