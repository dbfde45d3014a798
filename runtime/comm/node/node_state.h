// NodeState: how the members of a communicator on one node share what they have started and their
// progress. It is in memory that all of them map, so it holds no pointers and no locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/comm/communicator.h"

#include "runtime/comm/node/shared_memory.h"

namespace trireme::comm {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, barrier };
const char* name(Collective collective);

/// One collective operation; what a member publishes when it has started it.
struct CollectiveCall {
  Collective collective = Collective::barrier;
  DType dtype = DType::u8;
  Reduction reduction = Reduction::sum;
  std::int32_t root = 0;
  Index count = 0;  // elements; of one part where there are equal parts, of all where unequal
  PeerAddress in, out;
  std::uint64_t cut = 0;  // into unequal parts, see cut_of
};

/// Identifies unequal parts by a hash of their counts, which is not 0; 0: equal parts.
std::uint64_t cut_of(Parts parts);

/// "all_reduce sum of 12 f32"
std::string describe(const CollectiveCall& call);
/// Whether both are the same operation; the addresses of their buffers do not matter.
bool same_operation(const CollectiveCall& a, const CollectiveCall& b);

/// Written by its member, read by all.
struct alignas(64) MemberState {
  static constexpr Index ring = 64;           // operations in flight
  std::atomic<Index> posted{0};               // operations started
  std::atomic<bool> failed{false};            // it has given up; `failure` says why
  alignas(64) std::atomic<int> working{0};    // 1 while it may touch the buffers of others
  alignas(64) std::atomic<Index> arrived{0};  // steps done, see HostCommunicator::arrive
  alignas(64) CollectiveCall calls[ring];     // operation s is at s % ring
  char failure[256] = "";
};
static_assert(std::atomic<Index>::is_always_lock_free);

/// The states of all members, as one member sees them. Members of a node are in the order of their
/// rank.
struct NodeState {
  std::vector<MemberState*> members;
  std::vector<std::byte*>
      bounces;  // per member: memory in reach of all for data that is not; may be null
  std::shared_ptr<void> owner;  // keeps all that mapped
};

/// Bytes of one member's bounce buffer, and of what is sent between nodes at a time.
Index bounce_bytes(int group_size);

}  // namespace trireme::comm
