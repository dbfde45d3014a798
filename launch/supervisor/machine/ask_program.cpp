#include "launch/supervisor/machine/ask_program.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/processes.h"

namespace trireme::supervisor {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Until all who can write have closed it, or until that time.
Answer read_until(int file, double end) {
  constexpr std::size_t most_bytes = std::size_t{1} << 24;
  Answer answer;
  char buffer[1 << 14];
  while (now() < end && answer.text.size() < most_bytes) {
    pollfd watched = {file, POLLIN, 0};
    if (::poll(&watched, 1, std::max(1, static_cast<int>(1e3 * (end - now())))) < 1) continue;
    const ssize_t bytes = ::read(file, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    answer.whole = bytes == 0;
    if (bytes <= 0) break;
    answer.text.append(buffer, static_cast<std::size_t>(bytes));
  }
  return answer;
}

}  // namespace

Answer ask_program(const std::vector<std::string>& words, double limit_s) {
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC) == 0, "pipe: ", std::strerror(errno));
  pid_t program = -1;
  try {
    program = start_program(words, {}, ends[1], true);
  } catch (const Error&) {  // no program has that name
  }
  ::close(ends[1]);
  Answer answer;
  if (program >= 0) answer = read_until(ends[0], now() + limit_s);
  ::close(ends[0]);
  if (program < 0) return answer;
  ::kill(-program, SIGKILL);  // a session of its own; where it has ended, nothing is left
  int status = 0;
  while (::waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace trireme::supervisor
