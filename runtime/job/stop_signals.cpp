// The signals are blocked in every thread, so that only the waiting thread receives them.
#include "runtime/job/stop_signals.h"

#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme {

StopSignals::StopSignals() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGUSR1);
  sigaddset(&watched_, SIGTERM);
  require(pthread_sigmask(SIG_SETMASK, nullptr, &before_) == 0, "signals cannot be blocked");
  block();
}

void StopSignals::block() {
  require(pthread_sigmask(SIG_BLOCK, &watched_, nullptr) == 0, "signals cannot be blocked");
}

void StopSignals::unblock() {
  sigset_t waiting;
  require(sigpending(&waiting) == 0, "sigpending failed");
  for (const int signal : {SIGUSR1, SIGTERM})
    if (sigismember(&waiting, signal) == 1) return;
  restore();
}

StopSignals::~StopSignals() {
  if (thread_.joinable()) {
    ending_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);  // wakes it
    thread_.join();
  }
  restore();
}

void StopSignals::watch() {
  block();
  thread_ = std::thread([this] { wait(); });
}

void StopSignals::restore() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void StopSignals::wait() {
  for (;;) {
    int signal = 0;
    if (sigwait(&watched_, &signal) != 0 || ending_) return;
    if (first_.exchange(signal) != 0) _exit(128 + signal);
  }
}

}  // namespace trireme
