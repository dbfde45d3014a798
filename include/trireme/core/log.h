// Log: prose for people. Rank 0 writes to stdout, warnings of any rank go to stderr with the rank
// in front. It is an object that is passed along, never a global.
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
  /// A line as it is (tables, progress) on rank 0.
  void line(std::string_view text) const;
  /// "trireme[rank 3] warning: text" on stderr.
  void warning(std::string_view text) const;

 private:
  int rank_;
  LogLevel level_;
};

}  // namespace trireme
