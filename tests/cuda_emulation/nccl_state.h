// The emulated NCCL: communicators among processes, whose operations run as entries of the emulated
// streams (streams.h) and talk over non-blocking MPI calls of the calling thread. What one rank
// does wrong hurts as it would on GPUs: sends wait for their receives, output is garbage until the
// end, and ranks that disagree hang, with a line that says why. Stricter than NCCL: no collective
// ends anywhere before all ranks have come to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

namespace trireme::emulation {

/// Messages of one communicator, between world ranks. No two communicators that share two ranks
/// have the same tags.
enum class Purpose { set_up, roll, operations, data, messages, count };
class Tags {
 public:
  Tags() = default;
  /// Of the `number`th communicator that world rank `maker` has named.
  Tags(int maker, int number)
      : first_((maker * 4096 + number) * static_cast<int>(Purpose::count)) {}
  int of(Purpose purpose) const { return first_ + static_cast<int>(purpose); }

 private:
  int first_ = 0;
};

/// Requests of one step, with the memory that they work on. Memory of requests that never end is
/// never freed.
class Requests {
 public:
  Requests() = default;
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests();
  enum class Send { buffered, waits_for_its_receive };
  /// Keeps a copy of the data.
  void send(const void* data, std::size_t bytes, int world_rank, int tag, Send kind);
  /// The memory that the message will be in, once all is done.
  const std::byte* receive(std::size_t bytes, int world_rank, int tag);
  bool all_done();
  /// A message had another size than its receive.
  bool failed() const { return failed_; }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
  std::vector<std::size_t> receive_bytes_;  // per request; of sends: none
  bool failed_ = false;
};

/// What ranks connect for, when they first need it, each with buffers of its own: as NCCL, which
/// has connections for each algorithm, and chooses that by size.
enum class Connection { small_collectives, large_collectives, messages, count };

/// What a communicator has for itself or, with splitShare, together with those that it was split
/// from: NCCL's own stream on the device, so that operations run one after the other in the order
/// of their issue, whatever their streams; and the flag that ends them.
struct Resources {
  std::uint64_t issued = 0, ended = 0;  // operations
  bool aborted = false;
  bool connected[static_cast<int>(Connection::count)] = {};

  Resources() = default;
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;
  ~Resources();
  /// False when the device has no memory for it.
  bool connect(Connection connection);
};

/// What both the handle and the queued operations of a communicator refer to.
struct Members {
  int rank = 0;
  std::vector<int> world_ranks;
  Tags tags;
  std::shared_ptr<Resources> resources = std::make_shared<Resources>();
  int size() const { return static_cast<int>(world_ranks.size()); }
  std::string who(int r) const;
};

/// Something that a communicator is busy with: called by ncclCommGetAsyncError until it is done.
using Pending = std::function<bool()>;

}  // namespace trireme::emulation

struct ncclComm {
  std::shared_ptr<trireme::emulation::Members> members =
      std::make_shared<trireme::emulation::Members>();
  trireme::emulation::Pending pending;  // while the state is ncclInProgress
  int polls_until_done = 0;
  int calls = 0, looks = 0;                       // operations; ncclCommGetAsyncError
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;  // as it was given
};

namespace trireme::emulation {

/// The next call on `comm` is refused until ncclCommGetAsyncError has been called often enough and
/// `pending` is done.
ncclResult_t go_on_later(ncclComm_t comm, Pending pending);
/// ncclGroupStart calls that are open. What a communicator leaves behind is freed when there is
/// none.
int group_depth();
void free_aborted();
/// Says on stderr what is wrong. `text` names the ranks.
void report(const std::string& text);

}  // namespace trireme::emulation
