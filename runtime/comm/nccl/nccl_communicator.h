// NcclCommunicator: the collectives of one group of GPUs, on a CUDA stream of its own. Starting one
// makes that stream wait for what the caller's stream holds so far, and marks its end with an
// event; wait() makes a stream wait for that event. The host does not wait, and nothing is
// allocated.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/nccl.h"
#include "runtime/comm/nccl/collective_order.h"
#include "runtime/comm/nccl/handle.h"
#include "runtime/comm/nccl/watchdog.h"
#include "runtime/comm/node/shown_group.h"

namespace trireme::nccl {

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
