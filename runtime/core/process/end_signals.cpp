#include "runtime/core/process/end_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme {

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
