// What a thread does while it waits for a slot.
#include "runtime/store/write/block_ring.h"

#include <gtest/gtest.h>

#include "runtime/store/file_layout.h"

namespace trireme::store {
namespace {

TEST(BlockRing, CallsItsCallerUntilASlotIsFree) {
  BlockRing ring(allocate_host(block_bytes));
  ring.begin(2);
  ring.fill(ring.claim().block);
  int calls = 0;
  const BlockRing::Slot slot = ring.claim([&] {
    if (++calls == 3) ring.release(ring.take(1));
  });
  EXPECT_EQ(slot.block, 1);
  EXPECT_NE(slot.data, nullptr);
  EXPECT_GE(calls, 3);
}

TEST(BlockRing, CallsItsCallerUntilItIsStopped) {
  BlockRing ring(allocate_host(block_bytes));
  ring.begin(2);
  ring.fill(ring.claim().block);
  EXPECT_EQ(ring.claim([&] { ring.stop(); }).data, nullptr);
}

}  // namespace
}  // namespace trireme::store
