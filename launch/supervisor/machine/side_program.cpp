#include "launch/supervisor/machine/side_program.h"

#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/clock.h"
#include "runtime/core/require_call.h"

namespace trireme::supervisor {
namespace {

constexpr std::size_t most_output_bytes = std::size_t{1} << 24;  // of output that is kept

/// Where it prints; -1: where this process does. And the end of the pipe that is read, or -1.
std::pair<int, int> open_output(const SideCommand& command) {
  if (command.prints) return {-1, -1};
  if (!command.log.empty()) {
    constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK;  // for no pipe
    const int file = ::open(command.log.c_str(), flags, 0644);
    require_call(file >= 0, command.log, ": open");
    return {file, -1};
  }
  int ends[2];
  require_call(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[1], ends[0]};
}

void close_if_open(int file) {
  if (file >= 0) ::close(file);
}

}  // namespace

SideProgram::SideProgram(SideStatuses& statuses, const SideCommand& command)
    : statuses_(statuses), ending_s_(command.ending_s), until_(now() + command.limit_s) {
  const auto [output, pipe] = open_output(command);
  pipe_ = pipe;
  try {
    id_ = start_program(command.words, command.variables, output, true);
  } catch (...) {
    close_if_open(output);
    close_if_open(pipe_);
    throw;
  }
  close_if_open(output);
  statuses_.expect(id_);
}

SideProgram::~SideProgram() {
  if (!statuses_.of(id_)) end();
  statuses_.forget(id_);
  close_if_open(pipe_);
}

/// With what shares its session.
void SideProgram::ask_to_end() {
  if (asked_to_end_ || statuses_.of(id_)) return;
  ::kill(-id_, SIGTERM);
  asked_to_end_ = now();
}

/// While its status is not asked for, its number stays its own.
void SideProgram::end() {
  const auto runs = [this] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  };
  if (ending_s_ > 0) ask_to_end();
  constexpr int pause_ms = 5;
  for (const double until = asked_to_end_.value_or(0) + ending_s_; now() < until && runs();) {
    read();  // it may wait for space in the pipe
    ::poll(nullptr, 0, pause_ms);
  }
  ::kill(-id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void SideProgram::read() {
  char buffer[1 << 14];
  while (pipe_ >= 0) {
    const ssize_t bytes = ::read(pipe_, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return;
    if (end_.output.size() < most_output_bytes)
      end_.output.append(buffer, static_cast<std::size_t>(bytes));
  }
}

std::optional<SideEnd> SideProgram::poll() {
  const std::optional<int> status = statuses_.of(id_);
  read();
  if (!status && now() < until_) return std::nullopt;
  if (!status && !asked_to_end_ && ending_s_ > 0) {
    ask_to_end();
    until_ = now() + ending_s_;
    return std::nullopt;
  }
  if (!status || asked_to_end_)
    end_.late = true;
  else if (WIFEXITED(*status))
    end_.code = WEXITSTATUS(*status);
  return end_;
}

}  // namespace trireme::supervisor
