// StopSignals: SIGUSR1 and SIGTERM ask a job that saves to stop. The first signal is a vote, which
// reaches the other ranks at the end of a step, an evaluation batch, or a generated token. The
// second ends the process immediately. A scheduler may deliver one signal to a rank twice (Slurm's
// scancel without --batch does, 2 ms apart), so the same signal counts once within two seconds. A
// thread waits for them, so nothing runs in a signal handler.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace trireme::job {

class StopSignals {
 public:
  using Seconds = std::chrono::duration<double>;

  /// Blocks the signals in this thread and in those it starts from now on: create it before MPI
  /// starts its threads. Signals stay pending until another method is called. `repeated`: the time
  /// after the first signal in which the same signal is ignored.
  explicit StopSignals(Seconds repeated = Seconds(2));
  /// Call it on the thread that created it. Restores the signals. One that came after the first but
  /// was not yet handled then takes effect.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Restores the signals until watch() is called: for work that may never end, such as reading a
  /// file. If one is already pending, nothing changes: it is kept for watch().
  void unblock();
  void watch();
  /// Stops watching and restores the signals.
  void restore();
  /// The first signal that came; 0: none.
  int first() const { return first_.load(std::memory_order_relaxed); }

 private:
  void block();
  void wait();

  const Seconds repeated_;
  sigset_t watched_, before_;
  std::thread thread_;
  std::atomic<int> first_ = 0;
  std::atomic<bool> ending_ = false;
};

}  // namespace trireme::job
