// PeerMemory: which memory of this rank the other ranks of its node can read and write, and where
// they find it.
#pragma once

#include <cstddef>

#include "trireme/core/dtype.h"

namespace trireme::comm {

/// The location of a buffer, in a form that every rank of the node can resolve.
struct PeerAddress {
  static constexpr Index same_process = -1;  // offset is an address: ranks share one process
  static constexpr Index out_of_reach = -2;  // for others
  Index segment = out_of_reach;
  Index offset = 0;
};

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual PeerAddress find(const void* data, Index bytes) const = 0;
  /// The address here of what `peer` (its world rank) has at `address`.
  virtual std::byte* locate(int peer, PeerAddress address) const = 0;
};

}  // namespace trireme::comm
