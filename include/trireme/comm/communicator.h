// Communicator: the collectives of one group of ranks. Algorithms and executors know only this;
// transports are self (one rank), threads (tests), MPI with shared windows (CPUs) and, in the CUDA
// module, NCCL.
//
// Rules. Every member starts the same operations in the same order, from one thread. Sums have a
// fixed order, so all members get the same bits, run after run. Point-to-point messages may wait
// for their receive (as NCCL's do): group what must pass together in one `exchange`. Started work
// moves on by itself on GPUs; on CPUs it moves in progress() and wait(), so call progress() at op
// boundaries. Buffers of started work are not touched until wait().
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

struct Message {
  int peer;  // rank in this communicator
  void* data;
  Index bytes;
};

/// Names started work. Default: nothing, already done.
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

  // Start. The stream is where the data is produced: on CUDA the collective waits for what was
  // queued on it so far. f32, f64, i64 and i32 sum, max, min; bf16 sum. On CPUs bf16 is summed in
  // f32 and rounded once (on several nodes twice: what goes from node to node is bf16).
  /// In place.
  virtual Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) = 0;
  /// `in` holds size() parts of out.count elements; part rank() of the sum lands in `out`, which
  /// may be that part of `in` itself (what is left in the other parts of `in` is then unspecified).
  virtual Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction,
                                      Stream& stream) = 0;
  /// The parts `in` of all ranks land in `out` in rank order; `in` may be part rank() of `out`
  /// itself.
  virtual Ticket start_all_gather(Elements in, Elements out, Stream& stream) = 0;
  virtual Ticket start_broadcast(Elements x, int root, Stream& stream) = 0;
  /// Sends and receives that complete together. Between two ranks messages match in the order in
  /// which they appear.
  virtual Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                                Stream& stream) = 0;

  /// Moves started work on; never blocks. Cheap when nothing is pending.
  virtual void progress() = 0;
  /// True when the result may be used by the host (CPU) or work queued on the stream afterwards
  /// (CUDA).
  virtual bool done(Ticket ticket) = 0;
  /// Blocks until done (CPU), or makes `stream` wait for it (CUDA). Throws: Error that names group,
  /// operation and peer when the operation failed or its time ran out.
  virtual void wait(Ticket ticket, Stream& stream) = 0;
  virtual void barrier() = 0;

  // Start and wait.
  void all_reduce(Elements x, Reduction reduction, Stream& stream) {
    wait(start_all_reduce(x, reduction, stream), stream);
  }
  void reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream) {
    wait(start_reduce_scatter(in, out, reduction, stream), stream);
  }
  void all_gather(Elements in, Elements out, Stream& stream) {
    wait(start_all_gather(in, out, stream), stream);
  }
  void broadcast(Elements x, int root, Stream& stream) {
    wait(start_broadcast(x, root, stream), stream);
  }
  void exchange(std::span<const Message> sends, std::span<const Message> receives, Stream& stream) {
    wait(start_exchange(sends, receives, stream), stream);
  }
};

}  // namespace trireme
