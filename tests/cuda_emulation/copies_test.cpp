// Which copies hold the host is as CUDA documents it ("API synchronization behavior").
#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/cuda_emulation/streams.h"

namespace trireme::emulation {
namespace {

constexpr std::size_t much = (64 << 10) + 4, little = 64 << 10;

class Copies : public testing::Test {
 protected:
  Copies() {
    Streams::instance().set_schedule("lazy");
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaMalloc(&device_, much);
    cudaMalloc(&other_, much);
    cudaHostAlloc(&pinned_, much, cudaHostAllocDefault);
  }
  ~Copies() override {
    cudaStreamDestroy(stream_);
    cudaFree(device_);
    cudaFree(other_);
    cudaFreeHost(pinned_);
    Streams::instance().set_schedule("eager");
  }

  /// Whether a copy runs what was queued before it.
  bool waits(void* to, const void* from, std::size_t bytes) {
    cudaMemsetAsync(mark_.device, 0, 1, stream_);
    cudaMemsetAsync(mark_.device, 7, 1, stream_);
    EXPECT_EQ(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), cudaSuccess);
    const bool waited = *mark_.device == 7;
    cudaStreamSynchronize(stream_);
    cudaMemsetAsync(mark_.device, 0, 1, stream_);
    cudaStreamSynchronize(stream_);
    return waited;
  }

  struct Mark {
    Mark() { cudaMalloc(reinterpret_cast<void**>(&device), 1); }
    ~Mark() { cudaFree(device); }
    unsigned char* device = nullptr;
  };
  cudaStream_t stream_ = nullptr;
  void *device_ = nullptr, *other_ = nullptr, *pinned_ = nullptr;
  std::vector<std::byte> pageable_{much};
  Mark mark_;
};

TEST_F(Copies, BetweenTheDeviceAndPinnedMemoryDoNotBlockTheHost) {
  EXPECT_FALSE(waits(device_, pinned_, much));
  EXPECT_FALSE(waits(pinned_, device_, much));
  EXPECT_FALSE(waits(other_, device_, much));
}
TEST_F(Copies, ToPageableMemoryHoldTheHost) { EXPECT_TRUE(waits(pageable_.data(), device_, 4)); }
TEST_F(Copies, FromPageableMemoryHoldTheHostWhereTheyMayBeStaged) {
  EXPECT_TRUE(waits(device_, pageable_.data(), much));
  EXPECT_FALSE(waits(device_, pageable_.data(), little));
}
TEST_F(Copies, FromHostToHostHoldTheHostWhateverTheirMemory) {
  EXPECT_TRUE(waits(pinned_, pageable_.data(), 4));
  EXPECT_TRUE(waits(pageable_.data(), pinned_, 4));
}

}  // namespace
}  // namespace trireme::emulation
