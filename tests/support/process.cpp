#include "tests/support/process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"
#include "tests/support/record.h"

namespace trireme::test {
namespace {

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Only what is allowed between fork and exec.
[[noreturn]] void become(const char* command, const char* log, pid_t test) {
  setpgid(0, 0);
  // nohup and shells that start tests in the background ignore some, which a child would inherit.
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) ::signal(number, SIG_DFL);
  // A test program that is killed, as at its time-out, leaves nothing that runs on.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != test) _exit(125);
  const int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0) _exit(126);
  execl("/bin/sh", "sh", "-c", command, nullptr);
  _exit(127);
}

void record_program(const std::string& command, int exit_code, const std::string& output) {
  record("program", str(command, "\nends with ", exit_code, "\n", output));
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();  // an iterator over it would throw when a process of /proc ends meanwhile
  return text.str();
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

Outcome run_shell(const std::string& command, const std::string& log) {
  const int status = std::system(("{ " + command + "; } > " + log + " 2>&1").c_str());
  const Outcome outcome{exit_code_of(status), read_text(log)};
  record_program(command, outcome.exit_code, outcome.output);
  return outcome;
}

OutcomeApart run_apart(const std::string& command, const std::string& log) {
  const std::string errors = log + ".errors";
  const int status = std::system(("{ " + command + "; } > " + log + " 2> " + errors).c_str());
  const OutcomeApart outcome{exit_code_of(status), read_text(log), read_text(errors)};
  record_program(command, outcome.exit_code, outcome.output + outcome.errors);
  return outcome;
}

bool wait_until(const std::function<bool()>& condition, double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

BackgroundProcess::BackgroundProcess(const std::string& command, std::string log)
    : log_(std::move(log)) {
  const pid_t test = getpid();
  leader_ = fork();
  require(leader_ >= 0, "fork failed");
  if (leader_ == 0) become(command.c_str(), log_.c_str(), test);
  setpgid(leader_, leader_);  // parent or child, whichever is first: a signal may be sent at once
}

BackgroundProcess::~BackgroundProcess() {
  if (ended_) return;  // the group may be another one's by now
  kill(-leader_, SIGKILL);
  waitpid(leader_, &status_, 0);
}

bool BackgroundProcess::running() {
  if (!ended_) ended_ = waitpid(leader_, &status_, WNOHANG) == leader_;
  return !ended_;
}

void BackgroundProcess::send(int signal) const { kill(leader_, signal); }

Outcome BackgroundProcess::wait() {
  while (!ended_) {
    const pid_t found = waitpid(leader_, &status_, 0);
    require_call(found == leader_ || errno == EINTR, "waitpid");
    ended_ = found == leader_;
  }
  return {exit_code_of(status_), output()};
}

}  // namespace trireme::test
