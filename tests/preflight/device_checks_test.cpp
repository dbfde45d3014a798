// The checks of a device find bits that are wrong: on the CPU, with a stream that spoils copies.
#include "launch/preflight/device_checks.h"

#include <cstring>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/comm/mesh.h"
#include "trireme/core/error.h"
#include "trireme/kernels/device.h"

#include "kernels/cpu/loops.h"

namespace trireme::preflight::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The CPU with little memory.
class SmallDevice final : public Device {
 public:
  SmallDevice() : Device(cpu_traits()) {}
  std::string describe() const override { return "a small device"; }
  const Kernels& kernels() const override { return cpu_->kernels(); }
  Buffer allocate(Index bytes) override { return cpu_->allocate(bytes); }
  Index free_bytes() const override { return Index{160} << 20; }
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override { return cpu_->make_event(); }

  /// The copy of so many bytes that is spoiled, counted from 1; 0: none.
  Index spoiled_bytes = 0;
  int spoiled = 0;

 private:
  std::unique_ptr<Device> cpu_ = open_cpu();
};

class SpoilingStream final : public Stream {
 public:
  SpoilingStream(SmallDevice& device, std::unique_ptr<Stream> cpu)
      : Stream(device), small_(device), cpu_(std::move(cpu)) {}
  void copy(void* to, const void* from, Index bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    if (bytes == small_.spoiled_bytes && --small_.spoiled == 0) *static_cast<char*>(to) ^= 1;
  }
  void zero(void* data, Index bytes) override { cpu_->zero(data, bytes); }
  void copy(const Tensor& to, const Tensor& from) override { cpu_->copy(to, from); }
  void add(const Tensor& to, const Tensor& from) override { cpu_->add(to, from); }
  bool wait_and_check_finite(const Tensor& x) override { return cpu_->wait_and_check_finite(x); }
  void synchronize() override {}
  ThreadPool& pool() override { return cpu_->pool(); }

 private:
  SmallDevice& small_;
  std::unique_ptr<Stream> cpu_;
};

std::unique_ptr<Stream> SmallDevice::make_stream() {
  return std::make_unique<SpoilingStream>(*this, cpu_->make_stream());
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PreflightDevice, MemoryThatHoldsOtherBitsIsFoundByItsPlace) {
  constexpr Index piece = Index{16} << 20;
  constexpr double seconds = 60;
  SmallDevice device;
  const std::unique_ptr<Stream> stream = device.make_stream();
  const MemoryTested tested = test_memory(*stream, seconds);
  EXPECT_EQ(tested.free_bytes, device.free_bytes());
  EXPECT_EQ(tested.bytes, 7 * piece);
  for (const int spoiled : {3, 7 + 3}) {  // of the pattern, and of its inverse
    device.spoiled_bytes = piece;
    device.spoiled = spoiled;
    EXPECT_THAT(error_of([&] { test_memory(*stream, seconds); }),
                HasSubstr(str("other bits than were written, from byte ", 2 * piece)));
  }
}

TEST(PreflightDevice, TheTestOfMemoryStopsInTime) {
  constexpr Index piece = Index{16} << 20;
  SmallDevice device;  // of 7 pieces, of which 4 are written together
  EXPECT_EQ(test_memory(*device.make_stream(), 0).bytes, 4 * piece);
}

TEST(PreflightDevice, EqualProductsHaveEqualBits) {
  const std::unique_ptr<Device> cpu = open_cpu();
  const std::unique_ptr<Stream> stream = cpu->make_stream();
  const SteadyProducts products = run_products(*stream, 64, DType::f32, 0);
  EXPECT_THAT(products.bits, StartsWith("64: "));
  EXPECT_GT(products.gflops, 0);
  EXPECT_EQ(run_products(*stream, 64, DType::f32, 0).bits, products.bits);
  EXPECT_NE(run_products(*stream, 128, DType::f32, 0).bits, products.bits);
}

TEST(PreflightDevice, AProductThatChangesIsFound) {
  std::uint64_t runs = 0;
  const auto changes = [&]() -> std::uint64_t { return ++runs == 3 ? 8 : 7; };
  EXPECT_THAT(error_of([&] { repeat_products(changes, 64, DType::f32, 60); }),
              HasSubstr("a product of the same f32 matrices has other bits after 0 s"));
  EXPECT_EQ(runs, 3U);
}

TEST(PreflightDevice, TrainingStepsHaveEqualBitsOnEqualDevicesOnly) {
  const auto bits = [](const CpuOptions& options) {
    const std::unique_ptr<Device> cpu = open_cpu(options);
    const std::unique_ptr<Stream> stream = cpu->make_stream();
    const std::unique_ptr<Mesh> alone = make_self_mesh();
    return bits_of_training(*alone, *stream, {*alone, *stream});
  };
  const std::string first = bits({});
  EXPECT_EQ(bits({}), first);
  if (kernels::resolve(InstructionSet::best) == InstructionSet::portable)
    GTEST_SKIP() << "this machine has one instruction set";
  EXPECT_NE(bits({.instruction_set = InstructionSet::portable}), first);
}

}  // namespace
}  // namespace trireme::preflight::test
