// CollectiveTask: a collective in progress, a coroutine that suspends where it must wait for other
// ranks. Nothing is allocated: the frame is in a fixed buffer of the communicator that runs it.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

namespace trireme::comm {

class CollectiveTask {
 public:
  struct promise_type {
    bool (*ready)(void*) = nullptr;  // what the coroutine waits for
    void* condition = nullptr;
    std::exception_ptr error;

    CollectiveTask get_return_object() {
      return CollectiveTask(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
    /// The coroutine is a member function of `owner`, which keeps the frame.
    template <class Owner, class... Args>
    static void* operator new(std::size_t bytes, Owner& owner, const Args&...) {
      return owner.frame(bytes);
    }
    static void operator delete(void*) noexcept {}
  };

  CollectiveTask() = default;
  explicit CollectiveTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  CollectiveTask(CollectiveTask&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  CollectiveTask& operator=(CollectiveTask&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CollectiveTask() {
    if (handle_) handle_.destroy();
  }
  explicit operator bool() const { return static_cast<bool>(handle_); }

  /// Runs as far as possible without waiting; true once it has ended. Rethrows its exception.
  bool run() {
    promise_type& promise = handle_.promise();
    if (promise.ready && !promise.ready(promise.condition)) return false;
    promise.ready = nullptr;
    handle_.resume();
    if (promise.error) std::rethrow_exception(promise.error);
    return handle_.done();
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

/// co_await until(f): continues once f() is true.
template <class F>
struct Until {
  F ready;
  bool await_ready() { return ready(); }
  void await_suspend(std::coroutine_handle<CollectiveTask::promise_type> handle) {
    handle.promise().condition = this;
    handle.promise().ready = [](void* self) { return static_cast<Until*>(self)->ready(); };
  }
  void await_resume() {}
};
template <class F>
Until<F> until(F ready) {
  return {ready};
}

}  // namespace trireme::comm
