// BlockRing: blocks on their way from the threads that fill them, in any order, to the one that
// takes them, in runs in ascending order. Block b lies in slot b % slots. Either side can stop the
// other.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "trireme/core/buffer.h"

namespace trireme::store {

class BlockRing {
 public:
  /// `memory`: a whole number of blocks, at least one. Its pages are touched here.
  explicit BlockRing(Buffer memory);
  Index bytes() const { return memory_.bytes(); }
  Index slots() const { return slots_; }

  /// Restarts with `blocks` blocks to come. No thread may be using the ring.
  void begin(Index blocks);

  /// The memory of the next block to fill, once it is free; data is null when there is none left,
  /// or the ring was stopped.
  struct Slot {
    Index block;
    std::byte* data;
  };
  /// `while_waiting` is called many times a second while none is free.
  Slot claim(const std::function<void()>& while_waiting = {});
  /// Claims without waiting: data is null as well while no slot is free.
  Slot try_claim();
  void fill(Index block);

  /// Consecutive full blocks, at most `most`; waits until so many are there (fewer at the end of
  /// ring or file). Count 0: none left, or stopped.
  struct Run {
    Index block, count;
    const std::byte* data;
  };
  Run take(Index most);
  void release(const Run& run);

  /// Wakes all threads; no further slot or run is handed out.
  void stop();
  bool stopped();

 private:
  Index slot(Index block) const { return block % slots_; }
  bool is_free(Index block) const { return block < released_ + slots_; }
  Slot slot_of(Index block) const;
  bool full(Index begin, Index count) const;

  const Index slots_;
  Buffer memory_;
  std::mutex mutex_;
  std::condition_variable freed_, filled_;
  std::vector<char> is_full_;  // by slot
  Index blocks_ = 0, claimed_ = 0, released_ = 0;
  bool stopped_ = false;
};

}  // namespace trireme::store
