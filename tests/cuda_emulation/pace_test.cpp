// How far the host runs ahead of a stream where nothing runs before it is waited for.

#include <algorithm>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme::kernels {
namespace {

constexpr Index most_calls = Pace::calls_a_mark * (Pace::marks + 1);

/// The operations of a stream that have been queued and have not run; of the most after any call.
class Lazily : public testing::Test {
 protected:
  Lazily() { emulation::Streams::instance().set_schedule("lazy"); }
  ~Lazily() override { emulation::Streams::instance().set_schedule("eager"); }
  std::uint64_t most_outstanding(Index calls) {
    const auto& queue = *static_cast<emulation::Stream*>(stream_->native());
    std::uint64_t most = 0;
    for (Index i = 0; i < calls; ++i) {
      stream_->zero(memory_.data(), memory_.bytes());
      most = std::max(most, queue.outstanding());
    }
    return most;
  }
  CudaDevice gpu_{0};
  std::unique_ptr<Stream> stream_ = gpu_.make_stream();
  Buffer memory_ = gpu_.allocate(4);
};

TEST_F(Lazily, AShortStepIsQueuedWhole) {
  constexpr Index calls = most_calls - 1;
  EXPECT_EQ(most_outstanding(calls), calls + Pace::marks);
}

TEST_F(Lazily, TheHostIsNeverFurtherAheadThanTheMarks) {
  EXPECT_EQ(most_outstanding(3000), most_calls + Pace::marks);
}

}  // namespace
}  // namespace trireme::kernels
