// Tasks: many ranks as resumable tasks of one OS thread. One runs until it waits, then the next
// one. So a run is the same each time, and needs no more of a busy machine than its own work.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/core/function_ref.h"

#include "tests/cuda_emulation/fiber.h"

namespace trireme::virtual_clock {

class Tasks {
 public:
  explicit Tasks(int count);
  ~Tasks();
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  int count() const { return static_cast<int>(tasks_.size()); }
  /// Runs body(0) ... body(count - 1) to their ends, and rethrows the first error once all have
  /// ended. Throws: Error that says what each waits for when none can continue.
  void run(const std::function<void(int)>& body);
  /// For a task: others run until `done`. Throws: Error when another one has failed.
  void wait_until(FunctionRef<bool()> done, FunctionRef<std::string()> what);

 private:
  struct Task;
  static void enter(void* task);
  /// From the thread to a task, until it waits or ends.
  void resume(Task& task);
  bool all_ended() const;
  void fail(std::exception_ptr error, const std::string& text);
  std::string describe_waits() const;

  emulation::Fiber thread_;
  std::vector<std::unique_ptr<Task>> tasks_;
  const std::function<void(int)>* body_ = nullptr;
  Task* current_ = nullptr;
  bool moved_ = false;  // in this round
  std::exception_ptr error_;
  std::string failure_;
};

}  // namespace trireme::virtual_clock
