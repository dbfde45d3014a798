// Watch: looks after all NCCL groups of a rank whenever its host waits, for the device or for other ranks. One group that fails
// fails all of them, here: kernels of the others would wait for this rank for ever, and the host for them.
//
// The rule of failures: told first, cleaned up last. ncclCommAbort, and freeing memory that a kernel still works on, may wait for ever; so
// nothing that an error unwinds does either. Groups are left to the Watch, memory to the device (Device::while_waiting), and both
// go with the mesh: after the error has come to who reports it.
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
#include "runtime/comm/progress.h"

namespace trireme::nccl {

class NcclCommunicator;

class Watch final : public comm::Pending {
 public:
  using Clock = std::chrono::steady_clock;
  /// A look takes the lock of the CUDA context for each group, and NCCL's launching threads wait
  /// for it. A host that waits sees an error, or that a time is out, so much later at most.
  static constexpr std::chrono::microseconds between_looks{100};

  Watch(Mesh& host, Device& gpu, double timeout_s);
  /// Aborts the groups that were left.
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
  /// No group is of use any more, and the hosts of the other ranks hear why.
  void give_up(const std::string& why) override;
  double timeout_s() const { return timeout_s_; }
  bool failed() const { return !failure_.empty(); }

  /// What remains of a group that has failed, or that an error unwinds; in the order in which it is made.
  struct Remains {
    std::unique_ptr<Communicator> host;
    OwnedQueue queue;
    NcclHandle comm;
    std::unique_ptr<CollectiveOrder> order;
  };
  /// No group is of use any more, but others are told when this Watch ends: until then they may hear a better reason.
  void leave(Remains group);

 private:
  bool under_way() const;
  void tell();

  comm::Progress* host_;  // null where the host mesh never waits
  int rank_;
  Device& gpu_;
  double timeout_s_;
  std::vector<NcclCommunicator*> groups_;
  std::vector<Remains> left_;
  std::string failure_;
  Clock::time_point next_;
  const std::thread::id thread_ = std::this_thread::get_id();  // which issues what is looked at
  bool looking_ = false;
};

}  // namespace trireme::nccl
