// ThreadPool: the threads of one rank. The caller is thread 0; helpers spin briefly, then yield,
// then sleep, so that ranks which share cores (CI, laptops) do not wait a time slice for each
// other.
#pragma once

#include <memory>

#include "trireme/core/dtype.h"
#include "trireme/core/function_ref.h"

namespace trireme {

class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  /// Runs f(begin, end) over [0, count) cut into at most threads() contiguous parts of at least
  /// `grain` items; returns when all are done. The cut depends on (count, grain, threads) only, so
  /// results that depend on it are reproducible. The first exception of any part is rethrown here.
  /// Not reentrant.
  void parallel_for(Index count, Index grain, FunctionRef<void(Index begin, Index end)> f);
  /// Which part the calling thread runs: 0 outside of parallel_for. For per-thread workspace.
  static int current_thread();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
