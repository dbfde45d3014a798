// StopSignals: SIGUSR1 and SIGTERM ask a job that saves to stop. The first is a vote, which reaches
// the other ranks at the end of a step, of a batch of an evaluation, or of a generated token; the
// second ends the process at once, wherever it is. A thread waits for them, so nothing runs in a
// signal handler.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace trireme {

class StopSignals {
 public:
  /// Blocks the signals in this thread and in those it starts from now on: to be made before MPI
  /// starts its own. They wait until another method is called.
  StopSignals();
  /// By the thread that made it: the signals are again as they were. One that came after the first
  /// but was not yet seen takes effect then.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signals do what they did before, until watch() is called: for work that may never end,
  /// such as reading a file. Where one waits already, nothing changes: it is kept for watch().
  void let_through();
  void watch();
  /// Nothing is to be watched: the signals are again as they were.
  void leave();
  /// The first signal that came; 0: none.
  int first() const { return first_.load(std::memory_order_relaxed); }

 private:
  void block();
  void wait();

  sigset_t watched_, before_;
  std::thread thread_;
  std::atomic<int> first_ = 0;
  std::atomic<bool> ending_ = false;
};

}  // namespace trireme
