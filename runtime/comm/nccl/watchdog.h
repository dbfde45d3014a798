// Watchdog: polls all NCCL groups of a rank whenever its host waits, for the device or for other
// ranks. One group that fails fails all groups of the rank: kernels of the others would wait for
// this rank and never end, and the host would wait for them.
//
// Report first, clean up last. ncclCommAbort, and freeing memory that a kernel still uses, may
// block and never return. So stack unwinding does neither: groups are abandoned to the Watchdog,
// memory to the device (Device::while_waiting), and both are destroyed with the mesh, after the
// error has been reported.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/mesh.h"

#include "runtime/comm/nccl/collective_order.h"
#include "runtime/comm/nccl/handle.h"
#include "runtime/comm/page_of.h"
#include "runtime/comm/progress.h"

namespace trireme::nccl {

class NcclCommunicator;

class Watchdog final : public comm::Pending {
 public:
  using Clock = std::chrono::steady_clock;
  /// A poll takes the lock of the CUDA context for each group, and NCCL's launching threads wait
  /// for it. A host that waits sees an error or a time-out at most this much later.
  static constexpr std::chrono::microseconds poll_interval{100};

  Watchdog(Mesh& host, Device& gpu, double timeout_s);
  /// Aborts the abandoned groups.
  ~Watchdog() override;
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void add(NcclCommunicator* group) { groups_.push_back(group); }
  void remove(NcclCommunicator* group) { std::erase(groups_, group); }

  /// Polls all groups, unless the last time is less than poll_interval ago. Throws: Error of the
  /// group that has failed, now or before.
  void poll_groups();
  /// Runs what must not fail on one rank alone: when it throws, all groups have failed.
  template <class F>
  auto guard(F f) {
    try {
      return f();
    } catch (const std::exception& error) {
      fail(error.what());
      throw;
    }
  }
  /// poll_groups(), as an entry in the host mesh's list of what to poll.
  bool poll() override;
  /// Makes all groups unusable and notifies the hosts of the other ranks with the reason.
  void fail(const std::string& why) override;
  /// For waits of the host that poll: a sign of life in the status page of this rank.
  void heartbeat() { page_.heartbeat(); }
  observe::StatusPage& page() { return page_; }
  double timeout_s() const { return timeout_s_; }
  bool failed() const { return !failure_.empty(); }

  /// The resources of a group that has failed, or that stack unwinding abandons, in order of
  /// creation.
  struct AbandonedGroup {
    std::unique_ptr<Communicator> host;
    OwnedStream stream;
    NcclHandle comm;
    std::unique_ptr<CollectiveOrder> order;
  };
  /// Makes all groups unusable. Other ranks are notified when this Watchdog is destroyed, because
  /// until then they may receive a more exact reason.
  void abandon(AbandonedGroup group);

 private:
  bool in_flight() const;
  void notify();

  comm::Progress* host_;  // null where the host mesh never waits
  observe::StatusPage no_page_;
  observe::StatusPage& page_;  // of this rank
  int rank_;
  Device& gpu_;
  double timeout_s_;
  std::vector<NcclCommunicator*> groups_;
  std::vector<AbandonedGroup> abandoned_;
  std::string failure_;
  Clock::time_point next_;
  const std::thread::id thread_ = std::this_thread::get_id();  // which issues the operations
  bool polling_ = false;
};

}  // namespace trireme::nccl
