// One mutex, locked once a block (1 MiB, some 100 us of copying): no contention worth measuring.
#include "runtime/store/write/block_ring.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/store/file_layout.h"

namespace trireme::store {

BlockRing::BlockRing(Buffer memory)
    : slots_(memory.bytes() / block_bytes),
      memory_(std::move(memory)),
      is_full_(static_cast<std::size_t>(slots_)) {
  std::memset(memory_.data(), 0, static_cast<std::size_t>(memory_.bytes()));
}

void BlockRing::begin(Index blocks) {
  const std::lock_guard lock(mutex_);
  std::fill(is_full_.begin(), is_full_.end(), 0);
  blocks_ = blocks;
  claimed_ = released_ = 0;
  stopped_ = false;
}

BlockRing::Slot BlockRing::claim(const std::function<void()>& while_waiting) {
  constexpr std::chrono::milliseconds between_calls(20);
  std::unique_lock lock(mutex_);
  if (stopped_ || claimed_ == blocks_) return {};
  const Index block = claimed_++;
  while (!freed_.wait_for(lock, between_calls, [&] { return stopped_ || is_free(block); })) {
    if (!while_waiting) continue;
    lock.unlock();
    while_waiting();
    lock.lock();
  }
  if (stopped_) return {};
  return slot_of(block);
}

BlockRing::Slot BlockRing::try_claim() {
  const std::lock_guard lock(mutex_);
  if (stopped_ || claimed_ == blocks_ || !is_free(claimed_)) return {};
  return slot_of(claimed_++);
}

BlockRing::Slot BlockRing::slot_of(Index block) const {
  return {block, memory_.data() + slot(block) * block_bytes};
}

void BlockRing::fill(Index block) {
  {
    const std::lock_guard lock(mutex_);
    is_full_[static_cast<std::size_t>(slot(block))] = 1;
  }
  filled_.notify_one();
}

bool BlockRing::full(Index begin, Index count) const {
  const auto first = is_full_.begin() + slot(begin);
  return std::all_of(first, first + count, [](char full) { return full != 0; });
}

BlockRing::Run BlockRing::take(Index most) {
  std::unique_lock lock(mutex_);
  const Index begin = released_;
  const Index count = std::min({most, blocks_ - begin, slots_ - slot(begin)});
  filled_.wait(lock, [&] { return stopped_ || full(begin, count); });
  if (stopped_ || count == 0) return {};
  return {begin, count, memory_.data() + slot(begin) * block_bytes};
}

void BlockRing::release(const Run& run) {
  {
    const std::lock_guard lock(mutex_);
    std::fill_n(is_full_.begin() + slot(run.block), run.count, 0);
    released_ = run.block + run.count;
  }
  freed_.notify_all();
}

bool BlockRing::stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void BlockRing::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  freed_.notify_all();
  filled_.notify_all();
}

}  // namespace trireme::store
