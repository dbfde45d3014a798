// The CPU device: its description, memory, events, instruction sets and measured peaks.
#include "trireme/kernels/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

TEST(CpuDevice, SaysWhatItIs) {
  const auto device = open_cpu({2, InstructionSet::portable});
  EXPECT_EQ(device->kind(), DeviceKind::cpu);
  EXPECT_THAT(device->describe(), testing::HasSubstr("portable, 2 threads"));
  EXPECT_GT(device->free_bytes(), 1 << 20);
}

TEST(CpuDevice, NeedsAThread) { EXPECT_THROW(open_cpu({0}), Error); }

TEST(CpuDevice, NamesTheBytesItCannotAllocate) {
  const auto device = open_cpu();
  try {
    device->allocate(Index{1} << 60);
    FAIL() << "allocated an exabyte";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("1152921504606846976 bytes"));
    EXPECT_THAT(e.what(), testing::HasSubstr("bytes are free"));
  }
}

TEST(CpuDevice, AllocatesZeroFilledAlignedMemory) {
  const Buffer buffer = open_cpu()->allocate(5000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0u);
  for (Index i = 0; i < buffer.bytes(); ++i) ASSERT_EQ(buffer.data()[i], std::byte{0});
}

TEST(CpuDevice, EventsAreReachedAtOnce) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  event->record(*stream);
  event->make_wait(*stream);
  event->synchronize();
  EXPECT_TRUE(event->reached());
}

TEST(CpuDevice, TimersKeepTheClock) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const auto first = device->make_timer(), second = device->make_timer();
  first->record(*stream);
  second->record(*stream);
  EXPECT_GE(second->seconds_since(*first), 0);
  EXPECT_LE(first->seconds_since(*second), 0);
  EXPECT_EQ(first->seconds_since(*first), 0);
  EXPECT_EQ(stream->operations(), 0);  // they run at once
  const auto event = device->make_event();
  event->record(*stream);
  EXPECT_THROW(event->seconds_since(*first), Error);
  EXPECT_THROW(first->seconds_since(*event), Error);
}

TEST(InstructionSets, ThoseThatAreMissingAreRefusedByName) {
  EXPECT_TRUE(available(InstructionSet::best));
  EXPECT_TRUE(available(InstructionSet::portable));
  for (InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    if (available(set)) continue;
    try {
      open_cpu({1, set});
      FAIL() << "opened " << name(set);
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(name(set)));
    }
  }
}

TEST(Peaks, AreMeasured) {
  const double portable = measure_peak_flops(InstructionSet::portable), best = measure_peak_flops();
  EXPECT_GT(portable, 1e8);
  EXPECT_GT(best, 1e8);
  EXPECT_GT(measure_copy_rate(*open_cpu()->make_stream()), 1e6);
}

}  // namespace
}  // namespace trireme
