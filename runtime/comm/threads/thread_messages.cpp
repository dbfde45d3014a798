#include "runtime/comm/threads/thread_messages.h"

#include <cstring>

#include "trireme/core/error.h"

namespace trireme::comm {

std::shared_ptr<ThreadMailbox::PendingMessage> ThreadMailbox::send(const Path& path,
                                                                   const std::byte* data,
                                                                   Index bytes) {
  const std::lock_guard lock(mutex_);
  auto& messages = lines_[path].messages;
  if (messages.empty() || messages.front()->received_bytes < 0) {
    messages.push_back(std::make_shared<PendingMessage>());
    messages.back()->from = data;
    messages.back()->sent_bytes = bytes;
    return messages.back();
  }
  std::shared_ptr<PendingMessage> message = messages.front();
  messages.pop_front();
  message->from = data;
  message->sent_bytes = bytes;
  return message;
}

std::shared_ptr<ThreadMailbox::PendingMessage> ThreadMailbox::receive(const Path& path,
                                                                      std::byte* data,
                                                                      Index bytes) {
  const std::lock_guard lock(mutex_);
  auto& messages = lines_[path].messages;
  if (messages.empty() || messages.front()->sent_bytes < 0) {
    messages.push_back(std::make_shared<PendingMessage>());
    messages.back()->to = data;
    messages.back()->received_bytes = bytes;
    return messages.back();
  }
  std::shared_ptr<PendingMessage> message = messages.front();
  messages.pop_front();
  message->to = data;
  message->received_bytes = bytes;
  return message;
}

bool ThreadMailbox::deliver(PendingMessage& message, Side side) {
  const std::lock_guard lock(mutex_);
  if (message.passed) return true;
  if (message.withdrawn || message.sent_bytes < 0 || message.received_bytes < 0) return false;
  if (side == Side::sender && message.sent_bytes != message.received_bytes) return false;
  require(message.sent_bytes == message.received_bytes, "a message of ", message.sent_bytes,
          " bytes meets a receive of ", message.received_bytes);
  if (message.sent_bytes > 0)
    std::memcpy(message.to, message.from, static_cast<std::size_t>(message.sent_bytes));
  return message.passed = true;
}

void ThreadMailbox::withdraw(PendingMessage& message) {
  const std::lock_guard lock(mutex_);
  message.withdrawn = true;
}

namespace {

class ThreadBatch final : public MessageBatch {
 public:
  ThreadBatch(ThreadMailbox& mailbox, Channel channel, int rank, Progress& progress)
      : mailbox_(mailbox), channel_(channel), rank_(rank), progress_(progress) {}
  ~ThreadBatch() override {
    for (const Entry& entry : open_) mailbox_.withdraw(*entry.message);
  }

  void receive(int peer, void* data, Index bytes) override {
    open_.push_back(
        {peer, ThreadMailbox::Side::receiver,
         mailbox_.receive({channel_, peer, rank_}, static_cast<std::byte*>(data), bytes)});
  }
  void send(int peer, const void* data, Index bytes) override {
    open_.push_back(
        {peer, ThreadMailbox::Side::sender,
         mailbox_.send({channel_, rank_, peer}, static_cast<const std::byte*>(data), bytes)});
  }
  bool poll() override {
    for (std::size_t i = 0; i < open_.size();)
      if (passed(open_[i])) {
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    return open_.empty();
  }
  int waits_for() const override { return open_.empty() ? -1 : open_.front().peer; }

 private:
  struct Entry {
    int peer;
    ThreadMailbox::Side side;
    std::shared_ptr<ThreadMailbox::PendingMessage> message;
  };

  bool passed(const Entry& entry) {
    if (progress_.dice(4) == 1) return false;  // hostile: the messages pass in any order
    try {
      return mailbox_.deliver(*entry.message, entry.side);
    } catch (const Error& error) {
      throw Error(str("with rank ", entry.peer, ": ", error.what()));
    }
  }

  ThreadMailbox& mailbox_;
  Channel channel_;
  int rank_;
  Progress& progress_;
  std::vector<Entry> open_;
};

}  // namespace

std::unique_ptr<MessageBatch> ThreadMessages::make_batch(Channel channel) {
  return std::make_unique<ThreadBatch>(*mailbox_, channel, rank_, progress_);
}

}  // namespace trireme::comm
