// The pace of copies to disks.
#include <gtest/gtest.h>

#include "runtime/checkpoint/tiers/local_copies.h"

namespace trireme::checkpoint {
namespace {

TEST(DiskPace, LeavesHalfOfTheDiskAndMostOfACore) {
  EXPECT_DOUBLE_EQ(DiskPace::rest_s(0.004, 0), 0.004);
  EXPECT_DOUBLE_EQ(DiskPace::rest_s(0.004, 0.0001), 0.004);  // the disk's time counts
  EXPECT_DOUBLE_EQ(DiskPace::rest_s(0.004, 0.004), 0.036);   // memory is copied: the core's does
  EXPECT_DOUBLE_EQ(DiskPace::rest_s(0, 0), 0);
}

}  // namespace
}  // namespace trireme::checkpoint
