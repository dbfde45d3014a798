#include "runtime/comm/mpi/mpi_messages.h"

#include <algorithm>

namespace trireme::comm {
namespace {

constexpr Index largest_message = Index{1} << 30;  // MPI counts are int

class MpiBatch final : public MessageBatch {
 public:
  MpiBatch(MPI_Comm comm, Channel channel) : comm_(comm), tag_(static_cast<int>(channel)) {
    open_.reserve(16);
  }
  ~MpiBatch() override {  // not empty only after a failure
    for (Entry& entry : open_) {
      if (entry.request == MPI_REQUEST_NULL) continue;
      if (entry.direction == Direction::receive) MPI_Cancel(&entry.request);
      MPI_Request_free(&entry.request);
    }
  }

  void receive(int peer, void* data, Index bytes) override {
    each_part(peer, static_cast<std::byte*>(data), bytes, Direction::receive);
  }
  void send(int peer, const void* data, Index bytes) override {
    each_part(peer, const_cast<std::byte*>(static_cast<const std::byte*>(data)), bytes,
              Direction::send);
  }

  bool poll() override {
    for (Entry& entry : open_)
      if (entry.request != MPI_REQUEST_NULL) test(entry);
    std::erase_if(open_, [](const Entry& entry) { return entry.request == MPI_REQUEST_NULL; });
    return open_.empty();
  }
  int waits_for() const override { return open_.empty() ? -1 : open_.front().peer; }

 private:
  enum class Direction { send, receive };
  struct Entry {
    int peer = 0;
    int bytes = 0;
    Direction direction = Direction::send;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void each_part(int peer, std::byte* data, Index bytes, Direction direction) {
    do {
      Entry entry{peer, static_cast<int>(std::min(bytes, largest_message)), direction,
                  MPI_REQUEST_NULL};
      if (direction == Direction::send)
        check(MPI_Isend(data, entry.bytes, MPI_BYTE, peer, tag_, comm_, &entry.request),
              "MPI_Isend");
      else
        check(MPI_Irecv(data, entry.bytes, MPI_BYTE, peer, tag_, comm_, &entry.request),
              "MPI_Irecv");
      open_.push_back(entry);
      data += entry.bytes;
      bytes -= entry.bytes;
    } while (bytes > 0);
  }

  /// Sets the request to null when the message has passed, or failed.
  static void test(Entry& entry) {
    int done = 0;
    MPI_Status status;
    try {
      const int code = MPI_Test(&entry.request, &done, &status);
      if (code != MPI_SUCCESS) entry.request = MPI_REQUEST_NULL;
      check(code, "MPI_Test");
      if (!done || entry.direction == Direction::send) return;
      int received = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
      require(received == entry.bytes, "a message of ", received, " bytes meets a receive of ",
              entry.bytes);
    } catch (const Error& error) {
      throw Error(str("with rank ", entry.peer, ": ", error.what()));
    }
  }

  MPI_Comm comm_;
  int tag_;
  std::vector<Entry> open_;
};

}  // namespace

std::unique_ptr<MessageBatch> MpiMessages::make_batch(Channel channel) {
  return std::make_unique<MpiBatch>(comm_.get(), channel);
}

}  // namespace trireme::comm
