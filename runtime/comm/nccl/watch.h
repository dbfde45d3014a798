// Watch: looks after all NCCL groups of a rank whenever its host waits, for the device or for other ranks. One group that fails
// ends all of them, here: kernels of the others would wait for this rank for ever, and the host for them.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/mesh.h"

#include "runtime/comm/progress.h"

namespace trireme {

class NcclCommunicator;

class Watch final : public Pending {
 public:
  using Clock = std::chrono::steady_clock;

  Watch(Mesh& host, Device& gpu, double timeout_s);
  ~Watch() override;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void add(NcclCommunicator* group) { groups_.push_back(group); }
  void remove(NcclCommunicator* group) { std::erase(groups_, group); }

  /// Looks at all groups when the last look is some time ago. Throws: Error of the group that has failed, now or before.
  void look();
  /// Runs what must not fail on one rank alone: when it throws, all groups have given up.
  template <class F>
  auto guard(F f) {
    try {
      return f();
    } catch (const std::exception& error) {
      give_up(error.what());
      throw;
    }
  }
  /// The same as look(), in the list of what the host mesh moves on.
  bool poll() override;
  /// Aborts all groups, and tells the hosts of the other ranks.
  void give_up(const std::string& why) override;
  /// Gives up while an error unwinds this rank.
  void give_up_if_unwinding();
  double timeout_s() const { return timeout_s_; }
  bool failed() const { return !failure_.empty(); }

 private:
  bool under_way() const;

  Progress* host_;  // null where the host mesh waits for nobody
  int rank_;
  Device& gpu_;
  double timeout_s_;
  std::vector<NcclCommunicator*> groups_;
  std::string failure_;
  Clock::time_point next_;
  const std::thread::id thread_ = std::this_thread::get_id();  // which issues what is looked at
  bool looking_ = false;
};

}  // namespace trireme
