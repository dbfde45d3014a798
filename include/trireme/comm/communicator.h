// Communicator: the collectives of one group of ranks. Algorithms and executors use only this
// interface. Its transports are self (one rank), threads (tests), MPI with shared windows (CPUs)
// and, in the CUDA module, NCCL.
//
// Rules. Every member starts the same operations in the same order, from one thread. Sums have a
// fixed order: all members get the same bits in every run. A send may block until its receive
// starts (as with NCCL), so put messages that depend on each other into one `exchange`. On GPUs
// started operations progress asynchronously. On CPUs they progress only inside progress() and
// wait(), so call progress() at op boundaries. Do not touch the buffers of a started operation
// before wait().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "trireme/core/device.h"
#include "trireme/core/error.h"

namespace trireme {

/// Thrown on ranks that were waiting for a rank that failed. The failed rank reports the cause
/// itself.
class PeerError : public Error {
 public:
  // Not `using Error::Error`, at which nvcc stops (13.0).
  explicit PeerError(const std::string& message,
                     std::source_location where = std::source_location::current())
      : Error(message, where) {}
};

enum class Reduction { sum, max, min };

/// A contiguous run of elements that a collective works on.
struct Elements {
  void* data;
  Index count;
  DType dtype;
};

/// How the elements of a reduce-scatter or an all-gather are divided among the ranks of a group.
struct Parts {
  /// Elements of each rank, in rank order, zeros allowed; empty: equal parts. They must live until
  /// the operation is done.
  std::span<const Index> counts;
};

struct Message {
  int peer;  // rank in this communicator
  void* data;
  Index bytes;
};

/// Identifies a started operation. A default Ticket identifies none and is always done.
struct Ticket {
  std::uint64_t sequence = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "tensor", "data", ...: appears in reports and errors.
  virtual std::string_view name() const = 0;

  // Start an operation. `stream` is the one that produces the data: on CUDA the collective waits
  // for the work queued on it so far. f32, f64, i64 and i32 support sum, max and min; bf16 supports
  // sum. On CPUs bf16 is summed in f32 and rounded once (twice on several nodes, which exchange
  // bf16).
  /// In place.
  virtual Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) = 0;
  /// `in` holds a part for each rank, `parts` says of how many elements; part rank() of the sum is
  /// written to `out`, which may be that part of `in` itself (the other parts of `in` are then
  /// unspecified). On CPUs the bits of an element do not depend on the rank that gets it.
  virtual Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction,
                                      Stream& stream, Parts parts) = 0;
  /// Writes `in` of all ranks, of the sizes that `parts` says, to `out` in rank order; `in` may be
  /// part rank() of `out` itself.
  virtual Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) = 0;
  virtual Ticket start_broadcast(Elements x, int root, Stream& stream) = 0;
  /// Sends and receives that complete together. Messages between two ranks match in the order in
  /// which they are listed.
  virtual Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                                Stream& stream) = 0;

  /// Advances started operations. Never blocks; cheap when nothing is pending.
  virtual void progress() = 0;
  /// True when the host (CPU), or work queued on the stream from now on (CUDA), may use the result.
  virtual bool done(Ticket ticket) = 0;
  /// Blocks until done (CPU), or makes `stream` wait for it (CUDA). Throws: Error that names group,
  /// operation and peer when the operation failed or timed out.
  virtual void wait(Ticket ticket, Stream& stream) = 0;
  virtual void barrier() = 0;

  // In equal parts.
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream) {
    return start_reduce_scatter(in, out, reduction, stream, {});
  }
  Ticket start_all_gather(Elements in, Elements out, Stream& stream) {
    return start_all_gather(in, out, stream, {});
  }

  // Start and wait.
  void all_reduce(Elements x, Reduction reduction, Stream& stream) {
    wait(start_all_reduce(x, reduction, stream), stream);
  }
  void reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                      Parts parts = {}) {
    wait(start_reduce_scatter(in, out, reduction, stream, parts), stream);
  }
  void all_gather(Elements in, Elements out, Stream& stream, Parts parts = {}) {
    wait(start_all_gather(in, out, stream, parts), stream);
  }
  void broadcast(Elements x, int root, Stream& stream) {
    wait(start_broadcast(x, root, stream), stream);
  }
  void exchange(std::span<const Message> sends, std::span<const Message> receives, Stream& stream) {
    wait(start_exchange(sends, receives, stream), stream);
  }
};

}  // namespace trireme
