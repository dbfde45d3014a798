#include "runtime/comm/threads/thread_messages.h"

#include <cstring>

#include "trireme/core/error.h"

namespace trireme::comm {

std::shared_ptr<ThreadPost::Slip> ThreadPost::send(const Path& path, const std::byte* data,
                                                   Index bytes) {
  const std::lock_guard lock(mutex_);
  auto& slips = lines_[path].slips;
  if (slips.empty() || slips.front()->received_bytes < 0) {
    slips.push_back(std::make_shared<Slip>());
    slips.back()->from = data;
    slips.back()->sent_bytes = bytes;
    return slips.back();
  }
  std::shared_ptr<Slip> slip = slips.front();
  slips.pop_front();
  slip->from = data;
  slip->sent_bytes = bytes;
  return slip;
}

std::shared_ptr<ThreadPost::Slip> ThreadPost::receive(const Path& path, std::byte* data,
                                                      Index bytes) {
  const std::lock_guard lock(mutex_);
  auto& slips = lines_[path].slips;
  if (slips.empty() || slips.front()->sent_bytes < 0) {
    slips.push_back(std::make_shared<Slip>());
    slips.back()->to = data;
    slips.back()->received_bytes = bytes;
    return slips.back();
  }
  std::shared_ptr<Slip> slip = slips.front();
  slips.pop_front();
  slip->to = data;
  slip->received_bytes = bytes;
  return slip;
}

bool ThreadPost::deliver(Slip& slip, Side side) {
  const std::lock_guard lock(mutex_);
  if (slip.passed) return true;
  if (slip.withdrawn || slip.sent_bytes < 0 || slip.received_bytes < 0) return false;
  if (side == Side::sender && slip.sent_bytes != slip.received_bytes) return false;
  require(slip.sent_bytes == slip.received_bytes, "a message of ", slip.sent_bytes,
          " bytes meets a receive of ", slip.received_bytes);
  if (slip.sent_bytes > 0)
    std::memcpy(slip.to, slip.from, static_cast<std::size_t>(slip.sent_bytes));
  return slip.passed = true;
}

void ThreadPost::withdraw(Slip& slip) {
  const std::lock_guard lock(mutex_);
  slip.withdrawn = true;
}

namespace {

class ThreadBatch final : public MessageBatch {
 public:
  ThreadBatch(ThreadPost& post, Channel channel, int rank, Progress& progress)
      : post_(post), channel_(channel), rank_(rank), progress_(progress) {}
  ~ThreadBatch() override {
    for (const Entry& entry : open_) post_.withdraw(*entry.slip);
  }

  void receive(int peer, void* data, Index bytes) override {
    open_.push_back({peer, ThreadPost::Side::receiver,
                     post_.receive({channel_, peer, rank_}, static_cast<std::byte*>(data), bytes)});
  }
  void send(int peer, const void* data, Index bytes) override {
    open_.push_back(
        {peer, ThreadPost::Side::sender,
         post_.send({channel_, rank_, peer}, static_cast<const std::byte*>(data), bytes)});
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
    ThreadPost::Side side;
    std::shared_ptr<ThreadPost::Slip> slip;
  };

  bool passed(const Entry& entry) {
    if (progress_.dice(4) == 1) return false;  // hostile: the messages pass in any order
    try {
      return post_.deliver(*entry.slip, entry.side);
    } catch (const Error& error) {
      throw Error(str("with rank ", entry.peer, ": ", error.what()));
    }
  }

  ThreadPost& post_;
  Channel channel_;
  int rank_;
  Progress& progress_;
  std::vector<Entry> open_;
};

}  // namespace

std::unique_ptr<MessageBatch> ThreadMessages::make_batch(Channel channel) {
  return std::make_unique<ThreadBatch>(*post_, channel, rank_, progress_);
}

}  // namespace trireme::comm
