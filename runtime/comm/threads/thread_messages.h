// Messages between threads. A send waits for its receive: the data is copied when both are there,
// by whichever side looks first, at any time. So a buffer that is read or written too early shows
// in tests.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/comm/messages.h"
#include "runtime/comm/progress.h"

namespace trireme::comm {

/// The sends and receives of one group that have not met yet. Shared by its members.
class ThreadMailbox {
 public:
  struct PendingMessage {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    Index sent_bytes = -1, received_bytes = -1;  // -1: not there yet
    bool passed = false;
    bool withdrawn = false;  // one side has gone, after a failure
  };
  enum class Side { sender, receiver };
  using Path = std::tuple<Channel, int, int>;  // channel, sender, receiver

  std::shared_ptr<PendingMessage> send(const Path& path, const std::byte* data, Index bytes);
  std::shared_ptr<PendingMessage> receive(const Path& path, std::byte* data, Index bytes);
  /// Copies the message when both sides are there. True when it is done. Throws: Error on the side
  /// of the receiver, as MPI does, when the sizes differ.
  bool deliver(PendingMessage& message, Side side);
  /// Never touches the buffers again.
  void withdraw(PendingMessage& message);

 private:
  struct Line {
    std::deque<std::shared_ptr<PendingMessage>> messages;  // those that lack one side
  };
  std::mutex mutex_;
  std::map<Path, Line> lines_;
};

class ThreadMessages final : public Messages {
 public:
  ThreadMessages(std::shared_ptr<ThreadMailbox> mailbox, int rank, Progress& progress)
      : mailbox_(std::move(mailbox)), rank_(rank), progress_(progress) {}
  std::unique_ptr<MessageBatch> make_batch(Channel channel) override;

 private:
  std::shared_ptr<ThreadMailbox> mailbox_;
  int rank_;
  Progress& progress_;
};

}  // namespace trireme::comm
