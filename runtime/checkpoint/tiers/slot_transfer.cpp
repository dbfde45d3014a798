#include "runtime/checkpoint/tiers/slot_transfer.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/core/seconds_since.h"
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
  out_.reserve(sends_.size());
  in_.reserve(receives_.size());
  round_ = rounds_ = 0;
  for (std::vector<SlotEnd>* ends : {&sends_, &receives_})
    for (SlotEnd& end : *ends) {
      end.header.resize(static_cast<std::size_t>(header_bytes(end)), ' ');
      rounds_ = std::max(rounds_, rounds_of(end));
    }
  const double now = steady_seconds();
  pace_.begin(now);
  if (rounds_ > 0) start_round(stream, now);
}

void SlotTransfer::start_round(Stream& stream, double now) {
  out_.clear();
  in_.clear();
  for (SlotEnd& end : sends_)
    if (round_ < rounds_of(end)) out_.push_back(message_of(end, round_));
  for (SlotEnd& end : receives_)
    if (round_ < rounds_of(end)) in_.push_back(message_of(end, round_));
  pace_.started(now);
  ticket_ = group_->start_exchange(out_, in_, stream);
  under_way_ = true;
}

bool SlotTransfer::has_whole_piece() const {
  const auto whole = [](const Message& message) { return message.bytes == piece_bytes; };
  return std::any_of(out_.begin(), out_.end(), whole) || std::any_of(in_.begin(), in_.end(), whole);
}

bool SlotTransfer::advance(Stream& stream, bool at_once) {
  if (round_ == rounds_) return true;
  const double now = steady_seconds();
  const bool done = take_turn(stream, at_once, now);
  pace_.worked(seconds_since(now));
  return done;
}

bool SlotTransfer::take_turn(Stream& stream, bool at_once, double now) {
  if (under_way_) {
    group_->progress();
    if (!group_->done(ticket_)) return false;
    under_way_ = false;
    pace_.ended(now, round_ > 0 && has_whole_piece());
    ++round_;
  }
  if (round_ < rounds_) {
    if (at_once || pace_.may_start(now)) start_round(stream, now);
    return false;
  }
  for (SlotEnd& end : receives_) end.header.erase(end.header.find_last_not_of(' ') + 1);
  return true;
}

// Other ranks wait for it in a phase whose limit counts from the last sign of progress.
void SlotTransfer::wait(Stream& stream, observe::StatusPage& page) {
  for (Index seen = round_; !advance(stream, true);
       std::this_thread::sleep_for(std::chrono::microseconds(50))) {
    page.heartbeat();
    if (std::exchange(seen, round_) != round_) page.progressed();
  }
}

}  // namespace trireme::checkpoint
