// Log: messages for people, and a job's results. Rank 0 writes both; warnings of any rank go to
// stderr, prefixed with the rank. It is passed as an object, never a global.
#pragma once

#include <cstdio>
#include <memory>
#include <string_view>

namespace trireme {

enum class LogLevel { quiet, info, debug };
const char* name(LogLevel level);

/// Threads of a rank may share one.
class Log {
 public:
  /// `file`: where rank 0 writes all but results. Not owned.
  Log(int rank, LogLevel level, std::FILE* file = stdout);
  ~Log();
  int rank() const { return rank_; }
  /// "# [10:14:55] text" on rank 0, with the local time; with the date where it is another than
  /// that of the line before.
  void info(std::string_view text) const;
  void debug(std::string_view text) const;
  /// Writes a line unchanged (tables) on rank 0.
  void line(std::string_view text) const;
  /// Writes on rank 0 what the job was asked for, a generated text or an evaluation: a line on
  /// stdout, at every level.
  void result(std::string_view text) const;
  /// Rank 0 shows `text` on the terminal that `file` is, until anything else is written. It has at
  /// most as many columns as the terminal, less one. Allocates nothing.
  void progress(std::string_view text) const;
  /// "trireme[rank 3] warning: text" on stderr.
  void warning(std::string_view text) const;

 private:
  struct State;

  int rank_;
  LogLevel level_;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
