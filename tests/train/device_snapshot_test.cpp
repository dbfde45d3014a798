// Snapshots of memory that a stream copies (here the CPU's, as of any device).
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "runtime/store/write/snapshot.h"
#include "tests/store/toy_image.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

class DeviceSnapshot : public ::testing::Test {
 protected:
  const ScratchDirectory folder_;
  const ToyImage image_ = make_toy_image(9 * block_bytes + 77, 5, 3);
  const std::unique_ptr<Device> device_ = open_cpu();
  const std::unique_ptr<Stream> copies_ = device_->make_stream();
  Worker worker_;
};

TEST_F(DeviceSnapshot, IsTheImageWhateverRing) {
  for (const Index buffer : {Index{0}, 2 * block_bytes, 5 * block_bytes}) {
    Snapshot snapshot(image_.filled(MemoryOf::device), buffer, *device_);
    const std::string path = folder_ / std::to_string(buffer);
    snapshot.start_saving(path, *copies_, worker_);
    snapshot.finish_copying(*copies_);
    while (!snapshot.move_on(*copies_)) std::this_thread::yield();
    worker_.wait();
    EXPECT_EQ(snapshot.report().error, "");
    EXPECT_TRUE(bytes_of_file(path) == image_.expected);
  }
}

TEST_F(DeviceSnapshot, ThatGoesBeforeItsBlocksArriveDoesNotWaitForThem) {
  {
    Snapshot snapshot(image_.filled(MemoryOf::device), 2 * block_bytes, *device_);
    snapshot.start_saving(folder_ / "file", *copies_, worker_);
  }
  worker_.wait();
  EXPECT_FALSE(bytes_of_file(folder_ / "file") == image_.expected);
}

}  // namespace
}  // namespace trireme
