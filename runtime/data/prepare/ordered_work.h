// OrderedWork: one thread makes pieces of work, several do them, and the caller takes the results
// in the order in which the pieces were made. How much is under way is bounded.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/core/error.h"

#include "runtime/core/text/exception_text.h"

namespace trireme::data {

template <class Piece, class Result>
class OrderedWork {
 public:
  struct Steps {
    std::function<std::optional<Piece>()> make;           // by one thread; none: the end
    std::function<std::function<Result(Piece&)>()> work;  // what one worker works with
    std::function<void(Result&)> use;                     // by the caller
    std::function<void()> interrupt;                      // ends a make() that waits
    std::function<Index(const Piece&)> size;              // bytes
  };
  /// Pieces of at most `most_bytes` are under way together, or one that is larger.
  OrderedWork(Steps steps, Index most_bytes) : steps_(std::move(steps)), most_bytes_(most_bytes) {}

  /// Throws: what a step has thrown, that of the first piece in order.
  void run(int workers) {
    std::vector<std::thread> threads;
    const auto join = [&] {
      for (std::thread& thread : threads) thread.join();
    };
    try {
      start(threads, workers);
      use_all();
    } catch (...) {
      stop();
      join();
      throw;
    }
    join();
  }

 private:
  void start(std::vector<std::thread>& threads, int workers) {
    try {
      threads.emplace_back([this] { make_all(); });
      for (int i = 0; i < workers; ++i) threads.emplace_back([this] { work_all(); });
    } catch (const std::system_error&) {
      throw Error(str("thread ", threads.size() + 1, " of ", workers + 1,
                      " cannot be started: ", current_exception_text()));
    }
  }

  struct Slot {
    Index bytes = 0;
    std::optional<Piece> piece;
    std::optional<Result> result;
    std::exception_ptr failure;
    bool is_done() const { return result || failure; }
  };

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    steps_.interrupt();
  }

  void make_all() {
    for (bool more = true; more;) {
      Slot slot;
      try {
        slot.piece = steps_.make();
        more = slot.piece.has_value();
        if (more) slot.bytes = steps_.size(*slot.piece);
      } catch (...) {
        slot.failure = std::current_exception();
        slot.piece.reset();
        more = false;
      }
      more = append(std::move(slot)) && more;
    }
  }

  bool append(Slot slot) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stopped_ || under_way_ == 0 || under_way_ + slot.bytes <= most_bytes_;
    });
    if (stopped_) return false;
    if (slot.piece || slot.failure) {
      under_way_ += slot.bytes;
      const bool waits = slot.piece.has_value();
      slots_.push_back(std::move(slot));
      if (waits) waiting_.push_back(&slots_.back());
      ended_ = !waits;
    } else {
      ended_ = true;
    }
    changed_.notify_all();
    return true;
  }

  void work_all() {
    std::function<Result(Piece&)> work;
    std::exception_ptr no_work;
    try {
      work = steps_.work();
    } catch (...) {
      no_work = std::current_exception();
    }
    while (Slot* slot = next()) {
      std::optional<Result> result;
      std::exception_ptr failure = no_work;
      if (!failure) try {
          result = work(*slot->piece);
        } catch (...) {
          failure = std::current_exception();
        }
      const std::lock_guard lock(mutex_);
      slot->piece.reset();
      slot->result = std::move(result);
      slot->failure = failure;
      changed_.notify_all();
    }
  }

  /// Null at the end. A deque moves no element when its ends change.
  Slot* next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || ended_ || !waiting_.empty(); });
    if (stopped_ || waiting_.empty()) return nullptr;
    Slot* slot = waiting_.front();
    waiting_.pop_front();
    return slot;
  }

  void use_all() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return slots_.empty() ? ended_ : slots_.front().is_done(); });
      if (slots_.empty()) return;
      Slot slot = std::move(slots_.front());
      slots_.pop_front();
      lock.unlock();
      if (slot.failure) std::rethrow_exception(slot.failure);
      steps_.use(*slot.result);
      lock.lock();
      under_way_ -= slot.bytes;
      changed_.notify_all();
    }
  }

  Steps steps_;
  Index most_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> slots_;     // in order
  std::deque<Slot*> waiting_;  // for a worker
  Index under_way_ = 0;
  bool ended_ = false, stopped_ = false;
};

}  // namespace trireme::data
