// The signals are blocked in every thread, so that only the waiting thread receives them.
#include "runtime/job/stop_signals.h"

#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::job {

StopSignals::StopSignals(Seconds repeated) : repeated_(repeated) {
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
  std::chrono::steady_clock::time_point came;
  for (;;) {
    int signal = 0;
    if (sigwait(&watched_, &signal) != 0 || ending_) return;
    const auto now = std::chrono::steady_clock::now();
    const int first = first_.load();
    if (first == 0)
      first_ = signal, came = now;
    else if (signal != first || now - came >= repeated_)
      _exit(128 + signal);
  }
}

}  // namespace trireme::job
