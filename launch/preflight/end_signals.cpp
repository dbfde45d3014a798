#include "launch/preflight/end_signals.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::preflight {
namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

EndSignals::EndSignals() {
  const sigset_t set = watched();
  require(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "signals cannot be blocked");
  file_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  require(file_ >= 0, "signalfd: ", std::strerror(errno));
}

EndSignals::~EndSignals() { ::close(file_); }

/// It is not read, so that every thread sees it.
bool EndSignals::came() const {
  pollfd in = {file_, POLLIN, 0};
  return ::poll(&in, 1, 0) == 1;
}

void EndSignals::obey() const {
  signalfd_siginfo info;
  if (::read(file_, &info, sizeof info) != sizeof info) return;
  const auto signal = static_cast<int>(info.ssi_signo);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace trireme::preflight
