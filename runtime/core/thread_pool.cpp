#include "trireme/core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <sched.h>

#include "trireme/core/error.h"

namespace trireme {

namespace {
thread_local int this_thread = 0;
constexpr int spins_before_yield = 200;
constexpr int yields_before_sleep = 400;
}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> helpers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<std::uint64_t> generation{0};  // counts jobs; helpers wait for it to change
  std::atomic<int> unfinished{0};
  std::atomic<bool> stopping{false};
  std::atomic<bool> busy{false};  // a job is running: finds nested calls
  // The job of the current generation; written before `generation` is raised.
  std::optional<FunctionRef<void(Index, Index)>> job;
  Index count = 0;
  int parts = 0;
  std::exception_ptr failure;  // guarded by mutex

  void run_part(int part) {
    if (part >= parts) return;
    try {
      (*job)(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void await_job(std::uint64_t seen) {
    for (int i = 0; i < spins_before_yield + yields_before_sleep; ++i) {
      if (generation.load(std::memory_order_acquire) != seen) return;
      if (i >= spins_before_yield) ::sched_yield();
    }
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
  }

  void help(int thread) {
    this_thread = thread;
    for (std::uint64_t seen = 0;; ++seen) {
      await_job(seen);
      if (stopping.load(std::memory_order_acquire)) return;
      run_part(thread);
      unfinished.fetch_sub(1, std::memory_order_release);
    }
  }

  void announce() {
    {
      const std::lock_guard lock(mutex);
      generation.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
  }

  void stop() {
    stopping.store(true, std::memory_order_release);
    announce();
    for (std::thread& helper : helpers) helper.join();
    helpers.clear();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  require(threads >= 1, "a thread pool has at least one thread, got ", threads);
  try {
    for (int i = 1; i < threads; ++i)
      state_->helpers.emplace_back([s = state_.get(), i] { s->help(i); });
  } catch (const std::system_error& e) {
    const int started = this->threads();
    state_->stop();
    throw Error(str("cannot start thread ", started + 1, " of ", threads, ": ", e.what()));
  }
}

ThreadPool::~ThreadPool() { state_->stop(); }

int ThreadPool::threads() const { return static_cast<int>(state_->helpers.size()) + 1; }

int ThreadPool::current_thread() { return this_thread; }

void ThreadPool::parallel_for(Index count, Index grain, FunctionRef<void(Index, Index)> f) {
  if (count <= 0) return;
  const Index most = std::max<Index>(1, count / std::max<Index>(1, grain));
  const int parts = static_cast<int>(std::min<Index>(threads(), most));
  if (parts == 1) return f(0, count);
  State& s = *state_;
  require(!s.busy.exchange(true, std::memory_order_acquire),
          "parallel_for inside parallel_for on the same thread pool");
  s.job.emplace(f);
  s.count = count;
  s.parts = parts;
  s.unfinished.store(static_cast<int>(s.helpers.size()), std::memory_order_relaxed);
  s.announce();
  s.run_part(0);
  for (int i = 0; s.unfinished.load(std::memory_order_acquire) != 0; ++i)
    if (i >= spins_before_yield) ::sched_yield();
  s.busy.store(false, std::memory_order_release);
  if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
}

}  // namespace trireme
