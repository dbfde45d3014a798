// ReplicaHashes: whether the replicas of the data axis hold the same bits. Every rank hashes,
// bucket by bucket, what all of them should hold alike: the f32 masters, or the compute copy where
// masters are slices or parameters are frozen. 8 bytes a bucket are gathered over the data axis. A
// step allocates nothing.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/comm/mesh.h"
#include "trireme/kernels/range_list.h"

#include "runtime/optim/flat_parameters.h"

namespace trireme {

class ReplicaHashes {
 public:
  /// Bytes of device memory that it needs; 0 where there is one replica.
  static Index bytes(const FlatLayout& flat);
  /// `memory`: bytes() of device memory, aligned to 64; borrowed. Waits for the stream.
  ReplicaHashes(const FlatParameters& flat, Mesh& mesh, Stream& stream, std::byte* memory);

  /// Collective over the data axis, after an update. Queues the hashes and their exchange.
  void start();
  /// Waits for them. The same on all ranks of the axis, until the next start().
  void wait() { copied_->synchronize(); }
  /// The hash of a bucket on a data rank, after wait().
  std::uint64_t at(int data_rank, int bucket) const;
  /// Whether any data rank differs from another in the bucket, after wait().
  bool differs(int bucket) const;
  bool any_differs() const;

  int buckets() const { return buckets_; }
  int replicas() const { return data_.size(); }

 private:
  const FlatParameters& flat_;
  Communicator& data_;
  Stream& stream_;
  int buckets_;
  DeviceList<ListedRange> trained_, frozen_;  // in words of 8 bytes
  std::uint64_t* hashes_;                     // on the device: one a bucket and data rank
  Buffer arrived_;                            // the same, in memory of the host
  std::unique_ptr<Event> copied_;
};

/// The names of the parameters in a bucket: "'a', 'b' and 3 more".
std::string names_in_bucket(const FlatLayout& flat, int bucket);

}  // namespace trireme
