// Reach: which memory of this rank the other ranks of its node can read and write, and where they
// find it.
#pragma once

#include <cstddef>

#include "trireme/core/dtype.h"

namespace trireme::comm {

/// The location of a buffer, in a form that every rank of the node can resolve.
struct Place {
  static constexpr Index address = -1;  // offset is an address: ranks share one process
  static constexpr Index nowhere = -2;  // out of reach for others
  Index segment = nowhere;
  Index offset = 0;
};

class Reach {
 public:
  virtual ~Reach() = default;
  virtual Place find(const void* data, Index bytes) const = 0;
  /// The address here of what `peer` (its world rank) has at `place`.
  virtual std::byte* locate(int peer, Place place) const = 0;
};

}  // namespace trireme::comm
