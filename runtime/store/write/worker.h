// Worker: one background thread that does one job at a time, for file work beside training.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>

namespace trireme {

class Worker {
 public:
  Worker();
  /// Waits for the job. An exception of a job that was not waited for is lost.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The previous job must be finished. Throws: what the previous job threw, if wait() has not;
  /// then `job` is not started.
  void start(std::function<void()> job);
  bool finished() const;
  /// Returns when the job is finished. Throws: what the job threw, once.
  void wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
