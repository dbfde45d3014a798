// Progress: advances all operations that one rank has started, on all its communicators. A rank
// that waits for one group keeps serving the others, so groups cannot deadlock on each other.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "trireme/core/function_ref.h"
#include "trireme/core/random.h"

#include "runtime/observe/status_page.h"

namespace trireme::comm {

/// Something with work in progress, such as the groups of a mesh.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Advances without blocking. True when anything has advanced.
  virtual bool poll() = 0;
  /// This rank has failed, or timed out: no other rank may touch its buffers after this call. Other
  /// ranks are notified with the reason.
  virtual void fail(const std::string& why) = 0;
};

class Progress {
 public:
  struct Options {
    double timeout_s = 600;
    bool cores_are_shared = false;  // more ranks than cores: yield at once
    std::uint64_t hostile_seed = 0;
    /// Called repeatedly while waiting: advances a transport, or throws when others have failed.
    std::function<void()> while_waiting = [] {};
    /// Whether a rank of the world has ended its part of the job, so that a wait for it would never
    /// end. Long waits ask.
    std::function<bool(int)> has_ended = [](int) { return false; };
    observe::StatusPage* page = nullptr;  // status page of this rank; null: none
  };
  explicit Progress(Options options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(Pending* pending) { pending_.push_back(pending); }
  void remove(Pending* pending) { std::erase(pending_, pending); }
  /// Throws: what a group throws; all groups have then failed.
  bool poll();
  /// Polls until `done()`: spins briefly, then yields the core, then sleeps in between. `missing`:
  /// a rank of the world that has yet to come, or -1. Throws: Error with describe() when it takes
  /// longer than the time-out, or `missing` has ended.
  void wait_until(FunctionRef<bool()> done, FunctionRef<std::string()> describe,
                  FunctionRef<int()> missing);

  bool hostile() const { return options_.hostile_seed != 0; }
  double timeout_s() const { return options_.timeout_s; }
  /// Off where the rank has none.
  observe::StatusPage& page() { return options_.page != nullptr ? *options_.page : no_page_; }
  /// Returns in hostile mode a random number in [0, below); else 0.
  Index dice(Index below);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waited {
    Clock::time_point begun, unmoved;  // since when it lasts, and since when nothing has moved
    int ended = -1;                    // the missing rank, since it is known that it has ended
    int checks = 0;
  };

  bool poll_all();
  void wait(FunctionRef<bool()> done, FunctionRef<std::string()> describe,
            FunctionRef<int()> missing);
  void check(Waited& waited, FunctionRef<std::string()> describe, FunctionRef<int()> missing);
  template <class F>
  auto fail_on_error(F f);

  Options options_;
  observe::StatusPage no_page_;
  std::vector<Pending*> pending_;
  Random random_;
  Index draws_ = 0;
};

}  // namespace trireme::comm
