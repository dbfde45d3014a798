// Memory, events, timers and threads of a GPU device.
#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

TEST(CudaDevice, MemoryIsZeroAlignedAndCounted) {
  const auto device = open_gpu();
  const Index free = device->free_bytes(),
              much = Index{64} << 20;  // little comes out of what the driver has already taken
  const Buffer block = device->allocate(much);
  EXPECT_LE(device->free_bytes(), free - much);
  const Buffer memory = device->allocate(10000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0u);
  const auto stream = device->make_stream();
  Floats host(2500, 1.0f);
  stream->copy(host.data(), memory.data(), 10000);
  stream->synchronize();
  EXPECT_EQ(host, Floats(2500, 0.0f));
}

TEST(CudaDevice, TooMuchMemoryIsAnErrorWithBothNumbers) {
  const auto device = open_gpu();
  try {
    device->allocate(Index{1} << 50);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1125899906842624 bytes asked for"),
              std::string::npos);
  }
  EXPECT_NO_THROW(device->allocate(1000));
}

TEST(CudaDevice, AnEventOrdersTwoStreams) {
  const auto device = open_gpu();
  const auto first = device->make_stream(), second = device->make_stream();
  const auto event = device->make_event();
  const Buffer a = device->allocate(4), b = device->allocate(4);
  const float one = 1;
  first->copy(a.data(), &one, 4);
  event->record(*first);
  event->make_wait(*second);
  second->copy(b.data(), a.data(), 4);
  float result = 0;
  second->copy(&result, b.data(), 4);
  second->synchronize();
  EXPECT_EQ(result, 1);
  event->synchronize();
  EXPECT_TRUE(event->reached());
}

TEST(CudaDevice, TimersTellTheTimeOfTheStream) {
  const auto device = open_gpu();
  const auto stream = device->make_stream();
  const auto first = device->make_timer(), second = device->make_timer();
  const Buffer memory = device->allocate(1 << 20);
  first->record(*stream);
  const Index before = stream->operations();
  for (int i = 0; i < 3; ++i) stream->zero(memory.data(), memory.bytes());
  EXPECT_EQ(stream->operations(), before + 3);
  second->record(*stream);
  second->synchronize();
  EXPECT_GT(second->seconds_since(*first), 0);
  EXPECT_LT(first->seconds_since(*second), 0);
  const auto event = device->make_event();
  event->record(*stream);
  event->synchronize();
  EXPECT_THROW(event->seconds_since(*first), Error);
}

TEST(CudaDevice, HasNoThreadsForHostKernels) {
  const auto device = open_gpu();
  EXPECT_THROW(device->make_stream()->pool(), Error);
}

}  // namespace
}  // namespace trireme::test
