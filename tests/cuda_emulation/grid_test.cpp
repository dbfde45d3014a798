// The emulation finds what it promises to find, whatever the order of threads, and is right for
// kernels that are.
#include <array>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/gpu.cuh"
#include "tests/cuda_emulation/device_code.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme::emulation {
namespace {

using Values = std::vector<float>;

template <class Kernel, class... Arguments>
void launch(Kernel kernel, unsigned threads, std::size_t shared_bytes, Arguments... arguments) {
  gpu_launch(kernel, dim3(1), dim3(threads), shared_bytes, nullptr, arguments...);
  cudaStreamSynchronize(nullptr);
}

/// The same kernel in every order of threads.
template <class F>
void in_every_order(const F& f) {
  for (const Order order : {Order::forward, Order::reverse, Order::random})
    for (std::uint64_t seed = 1; seed <= (order == Order::random ? 5u : 1u); ++seed) {
      Grid::instance().options = {order, seed};
      f();
    }
  Grid::instance().options = {};
}

void sum_of_block(float* out, const float* in) {
  __shared__ float parts[8];
  float value = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (float part : parts) total += part;
  out[threadIdx.x] = total;
}

void sum_without_a_barrier(float* out, const float* in) {
  __shared__ float parts[8];
  float value = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  float total = 0;
  for (float part : parts) total += part;
  out[threadIdx.x] = total;
}

Values run_sum(void (*kernel)(float*, const float*)) {
  Values in(256), out(256);
  std::iota(in.begin(), in.end(), 1.0f);
  launch(kernel, 256, 0, out.data(), static_cast<const float*>(in.data()));
  return out;
}

TEST(Grid, ShufflesAndBarriersGiveTheSumInEveryOrder) {
  in_every_order([] { EXPECT_EQ(run_sum(sum_of_block), Values(256, 256 * 257 / 2.0f)); });
}

TEST(Grid, AMissingBarrierChangesTheResult) {
#if defined(EMULATION_THREAD_SANITIZER)
  GTEST_SKIP() << "ThreadSanitizer reports it instead";
#endif
  EXPECT_NE(run_sum(sum_without_a_barrier), Values(256, 256 * 257 / 2.0f));
}

void diverge(float* out) {
  if (threadIdx.x < 40)
    __syncthreads();
  else
    out[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
}
void lanes_missing_from_the_mask(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
}

TEST(GridDeathTest, DivergentBarriersAndWrongMasksEndTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Values out(64);
  EXPECT_DEATH(launch(diverge, 64, 0, out.data()), "lane|deadlock");
  EXPECT_DEATH(launch(lanes_missing_from_the_mask, 32, 0, out.data()), "deadlock|mask");
}

void halves(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  int value = static_cast<int>(threadIdx.x);
  if (lane < 16) value = __shfl_sync(mask, value, 3, 16);  // one half does more than the other
  for (int offset = 8; offset > 0; offset /= 2) value += __shfl_xor_sync(mask, value, offset, 16);
  out[threadIdx.x] = value;
}

TEST(Grid, HalvesOfAWarpWorkOnTheirOwn) {
  in_every_order([] {
    std::vector<int> out(64);
    launch(halves, 64, 0, out.data());
    EXPECT_EQ(out[0], 3 * 16);
    EXPECT_EQ(out[16], (16 + 31) * 8);
    EXPECT_EQ(out[32], 35 * 16);
  });
}

void reverse_in_shared(int* out) {
  GPU_DYNAMIC_SHARED(int, kept);
  kept[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

TEST(Grid, DynamicSharedMemoryIsExactlyAsLargeAsAsked) {
  in_every_order([] {
    std::vector<int> out(100);
    launch(reverse_in_shared, 100, 100 * sizeof(int), out.data());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], 99 - i);
  });
#if defined(EMULATION_ADDRESS_SANITIZER)
  std::vector<int> out(100);
  EXPECT_DEATH(launch(reverse_in_shared, 100, 99 * sizeof(int), out.data()), "use-after-poison");
#endif
}

void count_blocks(int* counts, int* last) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  ++counts[block];
  *last = static_cast<int>(block);
}

TEST(Grid, EveryBlockRunsOnceInEveryOrder) {
  for (const dim3 grid : {dim3(1), dim3(7), dim3(5, 2, 3), dim3(4, 6)}) {
    const unsigned blocks = grid.x * grid.y * grid.z;
    std::vector<int> lasts;
    in_every_order([&] {
      std::vector<int> counts(blocks);
      int last = -1;
      gpu_launch(count_blocks, grid, dim3(1), 0, nullptr, counts.data(), &last);
      cudaStreamSynchronize(nullptr);
      EXPECT_EQ(counts, std::vector<int>(blocks, 1));
      lasts.push_back(last);
    });
    EXPECT_EQ(std::set<int>(lasts.begin(), lasts.end()).size() > 1, blocks > 1)
        << "a race between blocks is not seen";
  }
}

void copy_four(float* to, const float* from) {
  kernels::gpu::store(to, kernels::gpu::load<4>(from));
}

TEST(GridDeathTest, LoadsAndStoresAtOddAddressesEndTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  alignas(16) std::array<float, 8> to{}, from{1, 2, 3, 4, 5};
  launch(copy_four, 1, 0, to.data(), static_cast<const float*>(from.data()));
  EXPECT_EQ(to[3], 4);
  EXPECT_DEATH(launch(copy_four, 1, 0, to.data(), static_cast<const float*>(from.data() + 1)),
               "block .0,0,0., thread .0,0,0.: load or store: .* not a multiple of 16");
  EXPECT_DEATH(launch(copy_four, 1, 0, to.data() + 2, static_cast<const float*>(from.data())),
               "not a multiple of 16");
}

TEST(Rounding, FunctionsOfTheDeviceAreNearTheHostsButNotTheSame) {
  int differ = 0;
  for (float x = -20; x < 20; x += 0.37f) {
    const float y = kernels::gpu::expf(x), expected = std::exp(x);
    EXPECT_NEAR(y, expected, 2.5e-7f * expected);
    if (y != expected) ++differ;
  }
  EXPECT_GT(differ, 50);
  EXPECT_EQ(kernels::gpu::expf(0), 1);
  EXPECT_EQ(kernels::gpu::expf(-1e9f), 0);
  EXPECT_EQ(gpu_exp2(-INFINITY), 0);
}

// Two streams, where the second one must wait for the first.
float two_streams(bool waits) {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  float value = 0, seen = 0;
  enqueue(first, "write", [&] { value = 1; });
  cudaEventRecord(event, first);
  if (waits) cudaStreamWaitEvent(second, event, 0);
  enqueue(second, "read", [&] { seen = value; });
  cudaStreamSynchronize(second);
  cudaStreamSynchronize(first);
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  return seen;
}

TEST(Streams, EveryScheduleObeysWaits) {
  for (const char* schedule : {"eager", "lazy", "ahead:1", "ahead:2", "random"}) {
    Streams::instance().set_schedule(schedule);
    EXPECT_EQ(two_streams(true), 1) << schedule;
  }
  Streams::instance().set_schedule("eager");
}

TEST(Streams, AMissingWaitIsSeenByTheLazySchedule) {
  Streams::instance().set_schedule("lazy");
  EXPECT_EQ(two_streams(false), 0);
  Streams::instance().set_schedule("eager");
}

TEST(Memory, WrongSidesAndFreedMemoryAreRefused) {
  void* device = nullptr;
  float host = 1;
  ASSERT_EQ(cudaMalloc(&device, 4), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(device, &host, 4, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(device, &host, 4, cudaMemcpyDeviceToHost, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device, &host, 8, cudaMemcpyHostToDevice, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
  cudaGetLastError();
}

}  // namespace
}  // namespace trireme::emulation
