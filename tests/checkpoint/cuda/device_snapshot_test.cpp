// A save of what lies on a GPU of the host emulation, beside structure and scalars that lie in the
// host's memory.
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "runtime/store/write/snapshot.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/store/toy_image.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

/// Nothing runs on the GPU before it is waited for.
class SaveOfAGpu : public ::testing::Test {
 protected:
  SaveOfAGpu() {
    emulation::Streams::instance().set_schedule("lazy");
    // Every second piece lies on the GPU, the others, as scalars do, on the host.
    for (std::size_t i = 0; i < layout_.pieces.size(); i += 2) {
      Piece& piece = layout_.pieces[i];
      on_gpu_.push_back(device_.allocate(piece.bytes()));
      copies_->copy(on_gpu_.back().data(), piece.data, piece.bytes());
      piece.data = on_gpu_.back().data();
      piece.memory = MemoryOf::device;
    }
    copies_->synchronize();
  }
  ~SaveOfAGpu() override { emulation::Streams::instance().set_schedule("eager"); }

  const ScratchDirectory folder_;
  ToyImage image_ = make_toy_image(9 * block_bytes + 77, 5, 3);
  kernels::CudaDevice device_{0, ""};
  const std::unique_ptr<Stream> copies_ = device_.make_stream();
  const std::unique_ptr<Event> before_ = device_.make_event();
  FileLayout layout_ = image_.filled();
  std::vector<Buffer> on_gpu_;
  Worker worker_;
};

TEST_F(SaveOfAGpu, HoldsTheHostForNoneOfItsCopies) {
  Snapshot snapshot(layout_, 0, device_);
  const Buffer training = device_.allocate(4);
  for (int i = 0; i < 8; ++i) copies_->zero(training.data(), 4);
  before_->record(*copies_);
  snapshot.start_saving(folder_ / "file", *copies_, worker_);
  EXPECT_FALSE(before_->reached());
  while (!snapshot.move_on(*copies_)) std::this_thread::yield();
  worker_.wait();
  EXPECT_EQ(snapshot.report().error, "");
  EXPECT_TRUE(bytes_of_file(folder_ / "file") == image_.expected);
}

TEST_F(SaveOfAGpu, HasWhatTheHostHeldWhenAllCopiesWereQueued) {
  for (const Index buffer : {Index{0}, 2 * block_bytes, 5 * block_bytes}) {
    Snapshot snapshot(layout_, buffer, device_);
    const std::string path = folder_ / std::to_string(buffer);
    snapshot.start_saving(path, *copies_, worker_);
    snapshot.finish_copying(*copies_);
    const std::vector<std::byte> held = image_.memory[1];
    std::fill(image_.memory[1].begin(), image_.memory[1].end(), std::byte{0x5a});
    while (!snapshot.move_on(*copies_)) std::this_thread::yield();
    worker_.wait();
    image_.memory[1] = held;
    EXPECT_EQ(snapshot.report().error, "");
    EXPECT_TRUE(bytes_of_file(path) == image_.expected);
  }
}

}  // namespace
}  // namespace trireme
