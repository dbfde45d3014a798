// The signals are blocked in every thread, so that the system keeps them for the one that waits.
#include "runtime/train/stop_signals.h"

#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme {

StopSignals::StopSignals() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGUSR1);
  sigaddset(&watched_, SIGTERM);
  require(pthread_sigmask(SIG_BLOCK, &watched_, &before_) == 0, "signals cannot be blocked");
}

StopSignals::~StopSignals() {
  if (thread_.joinable()) {
    ending_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);  // wakes it
    thread_.join();
  }
  leave();
}

void StopSignals::watch() {
  thread_ = std::thread([this] { wait(); });
}

void StopSignals::leave() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void StopSignals::wait() {
  for (;;) {
    int signal = 0;
    if (sigwait(&watched_, &signal) != 0 || ending_) return;
    if (first_.exchange(signal) != 0) _exit(128 + signal);
  }
}

}  // namespace trireme
