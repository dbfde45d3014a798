// StepHashes: hashes of what a rank computes in a step, bucket by bucket: its gradients before they
// are summed over the mesh, their sums, and masters and moments after the update. A step that is
// computed twice from one state gives the same hashes twice, or a computation was wrong
// (--verify-step). A step allocates nothing.
//
// Not installed; modules above may include it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trireme/kernels/range_list.h"

#include "runtime/optim/flat_parameters.h"

namespace trireme {

/// What an update writes, as its kernel takes it: UpdateRange says where in each.
struct UpdatedBuffers {
  float *masters, *first, *second;  // moments that the optimizer does not have are null
  Bf16* copy;
};

class StepHashes {
 public:
  enum class Part { terms, sums, masters, first, second };
  static constexpr int parts = 5;

  /// Bytes of device memory that it needs.
  static Index bytes(const FlatLayout& flat);
  /// `memory`: bytes() of device memory, aligned to 64; borrowed. Waits for the stream.
  StepHashes(const FlatParameters& flat, Stream& stream, std::byte* memory);

  /// What is computed from here on is hashed as the first or the second time.
  void begin(int time) { time_ = time; }
  /// Queues the hash of a bucket's gradients of this rank alone, which are complete.
  void hash_terms(int bucket);
  /// Queues the hashes of all gradients that this rank updates with.
  void hash_sums();

  /// Queues copies of what the update of a bucket changes, and returns where they are. They serve
  /// until the next call.
  UpdatedBuffers copy(int bucket, const UpdatedBuffers& original);
  /// Queues the hashes of what the update of a bucket wrote: to the originals the first time, to
  /// the copies the second time.
  void hash_update(int bucket, const UpdatedBuffers& original);

  /// Queues the way of all hashes to the host; then waits for them.
  void finish();
  /// The lowest bucket in which both times differ, after finish(); -1: none.
  int difference(Part part) const;

 private:
  void hash(Part part, int time, int bucket, int kind, const float* data);
  std::uint64_t* place(Part part, int time, int bucket) const;

  const FlatParameters& flat_;
  Stream& stream_;
  int buckets_;
  std::vector<ListedRange> ranges_;  // in words: one a kind of range and bucket
  DeviceList<ListedRange> lists_;    // the same on the device
  std::uint64_t* hashes_;            // on the device: one a time, part and bucket
  std::array<float*, 3> scratch_;    // copies of masters and moments
  Buffer arrived_;                   // the hashes, in memory of the host
  int time_ = 0;
};

}  // namespace trireme
