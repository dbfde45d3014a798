// Memory shared by the processes of a node, and PeerMemory over it. POSIX shared memory rather than
// MPI_Win_allocate_shared: its pages can be reserved, so a full memory file system is an error here
// and not a SIGBUS later, and it is given back without a collective call.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::comm {

// PeerMemory: which memory of this rank the other ranks of its node can read and write, and where
// they find it.

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

class SharedMemory {
 public:
  SharedMemory() = default;
  /// New, zero-filled memory with every page reserved, under a name that no one else has. Others
  /// can open it until hide(). Throws: Error with the bytes that are free when there are too few.
  static SharedMemory create(Index bytes);
  static SharedMemory open(const std::string& name, Index bytes);
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Removes the name: the memory is then freed with the last process that maps it, however that
  /// ends.
  void hide();
  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  Index bytes() const { return bytes_; }

 private:
  void map(int file, Index bytes);

  std::string name_;  // empty: hidden
  std::byte* data_ = nullptr;
  Index bytes_ = 0;
};

/// Throws: Error when the memory file system has fewer than `bytes` free for the `ranks` ranks of
/// this node.
void require_shared_memory(Index bytes, int ranks);

/// The segments that the ranks of this node share: one per call of Mesh::allocate, in which each
/// rank has its part.
class SharedPeerMemory final : public PeerMemory {
 public:
  struct Part {
    int world_rank;
    SharedMemory memory;  // empty: a rank that asked for nothing
  };
  /// `mine` is the index of this rank's part. All ranks of the node add the same segments in the
  /// same order.
  Index add(std::vector<Part> parts, std::size_t mine);
  /// Unmaps the segment.
  void drop(Index segment);

  PeerAddress find(const void* data, Index bytes) const override;
  std::byte* locate(int peer, PeerAddress address) const override;

 private:
  struct Segment {
    std::vector<Part> parts;           // empty: dropped
    const std::byte* begin = nullptr;  // begin of this rank's part
    Index bytes = 0;
  };
  std::vector<Segment> segments_;
};

}  // namespace trireme::comm
