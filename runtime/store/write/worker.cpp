// One thread, one job, one mutex.
#include "runtime/store/write/worker.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "trireme/core/error.h"

namespace trireme {

struct Worker::State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> job;  // empty: none under way
  bool stopping = false;
  std::exception_ptr failure;
  std::thread thread;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return job || stopping; });
      if (!job) return;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        job();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      failure = thrown;
      job = nullptr;
      changed.notify_all();
    }
  }
};

Worker::Worker() : state_(std::make_unique<State>()) {
  try {
    state_->thread = std::thread([s = state_.get()] { s->work(); });
  } catch (const std::system_error& e) {
    throw Error(str("cannot start the thread that writes files: ", e.what()));
  }
}

Worker::~Worker() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void Worker::start(std::function<void()> job) {
  {
    const std::lock_guard lock(state_->mutex);
    require(!state_->job, "a worker does one job at a time: wait for the one before");
    if (state_->failure) std::rethrow_exception(std::exchange(state_->failure, nullptr));
    state_->job = std::move(job);
  }
  state_->changed.notify_all();
}

bool Worker::finished() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->job;
}

void Worker::wait() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return !state_->job; });
  if (state_->failure) std::rethrow_exception(std::exchange(state_->failure, nullptr));
}

}  // namespace trireme
