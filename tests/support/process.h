// Programs that a test starts: it waits for their end, or runs them in the background, sends them
// signals, and kills them when the test ends.
#pragma once

#include <functional>
#include <string>

#include <sys/types.h>

namespace trireme::test {

struct Outcome {
  int exit_code;       // 128 + the signal when one ended it
  std::string output;  // stdout and stderr
};

/// Runs a line of the shell. `log`: the file that its output goes through.
Outcome run_shell(const std::string& command, const std::string& log);

struct OutcomeApart {
  int exit_code;  // 128 + the signal when one ended it
  std::string output, errors;
};

/// Does the same with stderr apart, through `log`.errors.
OutcomeApart run_apart(const std::string& command, const std::string& log);

/// "" when the file does not exist, or can no longer be read.
std::string read_text(const std::string& path);
/// How often `part` is in `text`.
int count(const std::string& text, const std::string& part);
/// Polls every 5 ms; returns false when `seconds` are over first.
bool wait_until(const std::function<bool()>& condition, double seconds = 100);

/// A line of the shell that runs beside the test, as the leader of its own process group.
class BackgroundProcess {
 public:
  BackgroundProcess(const std::string& command, std::string log);
  /// Ends it with SIGKILL, if it still runs.
  ~BackgroundProcess();
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;

  std::string output() const { return read_text(log_); }
  /// The process id of the shell, or of the program that it has replaced itself by (exec).
  pid_t id() const { return leader_; }
  bool running();
  /// To the process id(): with "exec mpirun ..." to mpirun, which passes it to its ranks.
  void send(int signal) const;
  Outcome wait();

 private:
  pid_t leader_;
  std::string log_;
  int status_ = -1;
  bool ended_ = false;
};

}  // namespace trireme::test
