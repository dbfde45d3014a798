#include "runtime/store/safetensors/read_ahead.h"

#include <gtest/gtest.h>

namespace trireme::safetensors {
namespace {

constexpr Index piece = Index{8} << 20;

/// A disk that takes so many seconds for a byte of each kind.
struct Disk {
  double announced, own;
  double now = 0;

  /// Returns: how many of these bytes were announced.
  Index read(ReadAhead& ahead, Index bytes) {
    Index of_announced = 0;
    for (Index done = 0; done < bytes; done += piece) {
      const bool announced_now = ahead.announces();
      now += static_cast<double>(piece) * (announced_now ? announced : own);
      of_announced += announced_now ? piece : 0;
      ahead.has_read(piece, now);
    }
    return of_announced;
  }
};

constexpr Index gibibyte = Index{1} << 30, tried = Index{256} << 20;

TEST(ReadAhead, KeepsTheFasterKindAndTriesTheOtherNowAndThen) {
  ReadAhead slow_when_announced, fast_when_announced;
  Disk one{2e-9, 1e-9}, other{1e-9, 3e-9};
  one.read(slow_when_announced, tried);
  other.read(fast_when_announced, tried);
  const double few = 0.12 * 8 * gibibyte;
  EXPECT_LT(one.read(slow_when_announced, 8 * gibibyte), few);
  EXPECT_GT(other.read(fast_when_announced, 8 * gibibyte), 8 * gibibyte - few);
}

TEST(ReadAhead, FollowsADiskThatChanges) {
  ReadAhead ahead;
  Disk disk{2e-9, 1e-9};
  disk.read(ahead, gibibyte);
  EXPECT_FALSE(ahead.announces());
  disk.own = 5e-9;
  disk.read(ahead, 2 * gibibyte);
  EXPECT_GT(disk.read(ahead, gibibyte), gibibyte / 2);
}

TEST(ReadAhead, AnnouncesSmallFiles) {
  ReadAhead ahead;
  Disk disk{1e-9, 1e-9};
  EXPECT_EQ(disk.read(ahead, piece), piece);
}

}  // namespace
}  // namespace trireme::safetensors
