// NcclCommunicator: the collectives of one group of GPUs, on a CUDA stream of its own. Starting one
// makes that stream wait for what the caller's stream holds so far, and marks its end with an
// event; wait() makes a stream wait for that event. The host does not wait, and nothing is
// allocated.
#pragma once

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/mesh.h"

#include "runtime/comm/nccl.h"
#include "runtime/comm/nccl/calls.h"
#include "runtime/comm/nccl/collective_order.h"
#include "runtime/comm/node/shown_group.h"
#include "runtime/comm/page_of.h"
#include "runtime/comm/progress.h"

namespace trireme::nccl {

/// Watchdog: polls all NCCL groups of a rank whenever its host waits, for the device or for other
/// ranks. One group that fails fails all groups of the rank: kernels of the others would wait for
/// this rank and never end, and the host would wait for them.
/// Report first, clean up last. ncclCommAbort, and freeing memory that a kernel still uses, may
/// block and never return. So stack unwinding does neither: groups are abandoned to the Watchdog,
/// memory to the device (Device::while_waiting), and both are destroyed with the mesh, after the
/// error has been reported.
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
  /// Gives a sign of life in the status page of this rank, for waits of the host that poll.
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
  observe::StatusPage& page_;  // status page of this rank
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

class NcclCommunicator final : public Communicator {
 public:
  struct Group {
    std::string name;
    int rank;
    std::vector<int> world_ranks;  // per rank of the group
    NcclHandle comm;
    std::unique_ptr<Communicator> host;  // the same ranks on the host
  };
  /// `watch` must outlive it.
  NcclCommunicator(Group group, Watchdog& watchdog, Device& gpu, const NcclOptions& options);
  ~NcclCommunicator() override;

  int rank() const override { return group_.rank; }
  int size() const override { return static_cast<int>(group_.world_ranks.size()); }
  std::string_view name() const override { return group_.name; }
  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override;
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                              Parts parts) override;
  Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) override;
  Ticket start_broadcast(Elements x, int root, Stream& stream) override;
  Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                        Stream& stream) override;
  void progress() override { watchdog_.poll_groups(); }
  bool done(Ticket ticket) override;
  void wait(Ticket ticket, Stream& stream) override;
  /// A barrier of the hosts: work queued on their devices may still be running.
  void barrier() override;

  // For Watchdog and NcclMesh.
  /// Throws: Error when NCCL reports one, an operation takes too long, or ranks started different
  /// ones.
  void poll(Watchdog::Clock::time_point now);
  /// Whether a started operation has not ended.
  bool in_flight();
  ncclComm_t handle() const { return group_.comm.get(); }
  /// Blocks the host until all started operations have ended.
  void wait_for_all();

 private:
  static constexpr Index ring = 256;
  /// Operations of a group that its stream holds before the host waits and polls; each is several
  /// of CUDA's, and a stream holds about a thousand. Groups of hosts hold 64 collectives and 64
  /// exchanges: with fewer here, ranks could wait for each other.
  static constexpr Index most_under_way = 128;
  enum class Kind { collective, exchange };
  /// The latest operation in this slot of the ring.
  struct Operation {
    OwnedEvent end;
    Kind kind = Kind::collective;
    comm::CollectiveCall call;
    Index messages = 0;
    Watchdog::Clock::time_point started;
    std::vector<observe::Operation> shown;  // in the status page; of an exchange one a message
  };

  void check_sums(const comm::CollectiveCall& call) const;
  ncclResult_t reduce_parts(Elements in, Elements out, Reduction reduction, Parts parts);
  ncclResult_t gather_parts(Elements in, Elements out, Parts parts);
  Ticket start(const Operation& what, Stream& stream, FunctionRef<ncclResult_t()> issue);
  Ticket start(const comm::CollectiveCall& call, Stream& stream, FunctionRef<ncclResult_t()> issue);
  /// The operation of `sequence`, or the oldest later one whose event is still kept: it ends after
  /// it.
  Operation& at(Index sequence);
  bool has_ended(Index sequence);
  void wait_on_host(Index sequence);
  std::string describe(Index sequence);  // allocates: for errors
  void wait_for_place();
  void show_start(const Message& message, bool is_send);
  void show_end(Index sequence);

  Group group_;
  Watchdog& watchdog_;
  bool serialize_;
  OwnedStream cuda_stream_;
  OwnedEvent ready_;
  std::array<Operation, ring> operations_;
  Index started_ = 0, ended_ = 0;  // operations; those known to have ended
  comm::ShownGroup shown_;
  Watchdog::Clock::time_point last_end_;
  std::unique_ptr<CollectiveOrder> order_;  // null: not checked
};

}  // namespace trireme::nccl
