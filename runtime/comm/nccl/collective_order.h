// CollectiveOrder: checks that all ranks of a group start the same collectives in the same order.
// NCCL does not detect it: such ranks would hang, or sum what they should gather. Each rank sends
// what it starts to the others over the host, does not wait for them, and compares when their
// messages have arrived.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/comm/nccl/calls.h"
#include "runtime/comm/node/node_state.h"

namespace trireme::nccl {

class CollectiveOrder {
 public:
  /// `host`: the same ranks on the host, used for nothing else. Both must outlive it.
  CollectiveOrder(Communicator& host, std::vector<int> world_ranks, Device& gpu);

  /// Waits only when others are `in_flight` collectives behind.
  void start(const comm::CollectiveCall& call, Index sequence);
  /// Throws: Error that names both operations and a rank of each.
  void poll();
  /// Waits until everything has been compared.
  void finish();

 private:
  static constexpr Index in_flight = 32;
  struct StartedCall {
    Index sequence = 0;
    comm::CollectiveCall call;
  };
  struct Round {
    Ticket ticket;
    StartedCall mine;
    std::vector<StartedCall> all;
  };
  bool pending() const { return compared_ < sent_; }
  void wait_for_one();
  void compare(const Round& round) const;
  std::string who(int rank) const;

  Communicator& host_;
  std::vector<int> world_ranks_;
  NoStream none_;
  std::array<Round, in_flight> rounds_;
  Index sent_ = 0, compared_ = 0;
};

}  // namespace trireme::nccl
