// The pace of copies to disks.
#include "runtime/checkpoint/memory/disk_pace.h"

#include <gtest/gtest.h>

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
