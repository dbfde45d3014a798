// Child: a program that this process has started, until how it ended is known; and run_program(),
// which waits for that.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "runtime/core/process/this_process.h"

namespace trireme {

/// The environment of this process, "NAME=VALUE" each, with these variables in place of those of
/// the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& variables);

/// Whether a word names an executable, in PATH or by its path.
bool is_executable(const std::string& word);

struct ChildOptions {
  enum class Output { inherited, pipe, file };

  std::vector<std::string> environment = environment_with({});
  Output output = Output::inherited;
  std::string file = {};  // is written from its beginning; "/dev/null": the output goes nowhere
  bool errors = true;     // standard error goes where the output goes; false: it is inherited
  /// With a pipe: is called with each piece of the output.
  std::function<void(std::string_view piece)> take = {};
  /// With a pipe: bytes that ChildEnd has. Of more than that it has the beginning and the end.
  std::size_t most_output = std::size_t{16} << 20;

  double limit_s = std::numeric_limits<double>::infinity();  // then it is asked to end (SIGTERM)
  double ending_s = 5;  // between SIGTERM and SIGKILL; 0: SIGKILL comes at once
  /// With a pipe: for processes that it leaves and that keep the pipe open, to end by themselves.
  double leftover_s = 0;
  /// SIGTERM goes to its process and not to its process group: mpirun ends its ranks itself.
  bool ask_alone = false;
  /// Neither the destructor nor the end of this process ends it.
  bool outlives = false;
  /// Holds its id while its status is not asked for: a process that adopts orphans tells them by it
  /// from those that it has started.
  std::set<pid_t>* family = nullptr;
};

struct ChildEnd {
  enum class Why { by_itself, late, asked };
  Why why = Why::by_itself;
  int status = 0, signal = 0;  // with which it has exited, or that has ended it; the other is 0
  std::string output = {};     // text from a pipe

  /// Returns nothing where a signal ended it, or it was asked to end.
  std::optional<int> code() const {
    return why == Why::by_itself && signal == 0 ? std::optional(status) : std::nullopt;
  }
  bool succeeded() const { return code() == 0; }
};

/// It runs in a session of its own, with /dev/null as its input and with no other files of this
/// process than standard output and error, and gets SIGKILL when the thread that started it ends.
/// It counts as ended when its process has, not when its output is closed: it may close that
/// before, and a process that it leaves may keep it open. What is left of its process group is
/// killed then.
class Child {
 public:
  /// `words`: a program, found in PATH, and its arguments. Throws: Error when it cannot be started.
  explicit Child(const std::vector<std::string>& words, ChildOptions options = {});
  /// Ends it where it runs, as after its limit.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// -1: it has ended, as poll() has said.
  pid_t id() const { return id_; }
  /// To be polled: the end of the pipe; -1: there is none, or its writers have closed it.
  int pipe() const { return pipe_; }

  /// Reads a part of what is in the pipe, ends the program where it is time for that, and returns
  /// how it has ended; null: it runs. Call it again soon.
  const ChildEnd* poll();
  /// Returns how it ends.
  const ChildEnd& wait();
  /// Waits for output, for `file` (-1: none), or for some milliseconds, as an end shows in no file.
  void pause(int file = -1) const;
  /// Sends SIGTERM now, where it runs: ending_s counts from now.
  void ask_to_end() { end_as(ChildEnd::Why::asked); }
  /// Sends a signal to its process alone, where it runs.
  void signal(int number) const;

 private:
  void end_as(ChildEnd::Why why);
  void read();
  void keep(std::string_view piece);
  void finish(int code, int status);

  ChildOptions options_;
  pid_t id_ = -1;  // that of no other process until its status is asked for
  int pipe_ = -1;
  double until_;  // the end of its limit, of its ending, or of the time of what it leaves
  ChildEnd end_;
};

/// Asks for the statuses of orphans that this process has adopted and that have ended. It stops at
/// one of `family` that has ended, until the poll() of its Child.
void reap_orphans(const std::set<pid_t>& family);

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

/// Runs a program to its end, for a command that waits for it. Returns how it has ended and what it
/// has printed. Throws: Error when it cannot be started.
ChildEnd run_program(const std::vector<std::string>& words, const RunOptions& options);

}  // namespace trireme
