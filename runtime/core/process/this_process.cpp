#include "runtime/core/process/this_process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme {
namespace {

void open_standard_streams() {
  // In ascending order: open(2) takes the lowest free number.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    require_call(errno == EBADF, "file descriptor ", stream);
    const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    require_call(opened >= 0, "file descriptor ", stream,
                 " is closed, and /dev/null cannot be opened");
    require(opened == stream, "/dev/null is file descriptor ", opened, " in place of ", stream);
  }
}

void raise_limit_of_open_files() {
  rlimit limit = {};
  require_call(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  limit.rlim_cur = limit.rlim_max;
  require_call(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

}  // namespace

void prepare_process() {
  open_standard_streams();
  raise_limit_of_open_files();
  require_call(std::signal(SIGXFSZ, SIG_IGN) != SIG_ERR && std::signal(SIGCHLD, SIG_DFL) != SIG_ERR,
               "signal");
}

// Both streams stay bad once a write has failed.
int exit_code_with_output(int code) {
  const bool streams = std::cout.flush().good();
  const bool files = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (streams && files) return code;
  std::fputs("trireme: standard output cannot be written: is its disk full?\n", stderr);
  return code == EXIT_SUCCESS ? EXIT_FAILURE : code;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

EndSignals::EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    if (!is_ignored(signal)) sigaddset(&set, signal);
  require(::pthread_sigmask(SIG_BLOCK, &set, &before_) == 0, "signals cannot be blocked");
  file_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  require_call(file_ >= 0, "signalfd");
}

EndSignals::~EndSignals() {
  while (take() != 0) {
  }
  ::close(file_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

/// It is not read, so that every thread sees it.
bool EndSignals::came() const {
  pollfd in = {file_, POLLIN, 0};
  return ::poll(&in, 1, 0) == 1;
}

int EndSignals::take() {
  signalfd_siginfo info;
  return ::read(file_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
}

}  // namespace trireme
