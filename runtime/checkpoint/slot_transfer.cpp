#include "runtime/checkpoint/slot_transfer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/store/file_layout.h"

namespace trireme::checkpoint {
namespace {

constexpr Index piece_bytes = Index{8} << 20;

/// Enough for the text of a header: 35 characters for each block. The rest is filled with spaces.
Index header_bytes(const SlotEnd& end) { return 1024 + 40 * blocks_of(end.bytes); }

Message message_of(SlotEnd& end, Index round) {
  if (round == 0) return {end.peer, end.header.data(), header_bytes(end)};
  const Index begin = (round - 1) * piece_bytes;
  return {end.peer, end.data + begin, std::min(piece_bytes, end.bytes - begin)};
}

Index rounds_of(const SlotEnd& end) { return 1 + (end.bytes + piece_bytes - 1) / piece_bytes; }

}  // namespace

void SlotTransfer::start(std::vector<SlotEnd> sends, std::vector<SlotEnd> receives,
                         Stream& stream) {
  sends_ = std::move(sends);
  receives_ = std::move(receives);
  round_ = rounds_ = 0;
  for (std::vector<SlotEnd>* ends : {&sends_, &receives_})
    for (SlotEnd& end : *ends) {
      end.header.resize(static_cast<std::size_t>(header_bytes(end)), ' ');
      rounds_ = std::max(rounds_, rounds_of(end));
    }
  if (rounds_ > 0) start_round(stream);
}

void SlotTransfer::start_round(Stream& stream) {
  std::vector<Message> out, in;
  for (SlotEnd& end : sends_)
    if (round_ < rounds_of(end)) out.push_back(message_of(end, round_));
  for (SlotEnd& end : receives_)
    if (round_ < rounds_of(end)) in.push_back(message_of(end, round_));
  ticket_ = group_->start_exchange(out, in, stream);
}

bool SlotTransfer::poll(Stream& stream) {
  if (round_ == rounds_) return true;
  group_->progress();
  if (!group_->done(ticket_)) return false;
  if (++round_ < rounds_) {
    start_round(stream);
    return false;
  }
  for (SlotEnd& end : receives_) end.header.erase(end.header.find_last_not_of(' ') + 1);
  return true;
}

void SlotTransfer::wait(Stream& stream) {
  while (!poll(stream)) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace trireme::checkpoint
