// The numbers of known GPUs, the refusal of wrong ones, and the line that describes a device.
#include "trireme/core/device_traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DeviceTraits, OfAKnownGpuAreItsNumbers) {
  EXPECT_EQ(gpu_traits("H100-SXM"), gpu_traits(90, 132, 232448));
  EXPECT_EQ(gpu_traits("A100-80GB"), gpu_traits(80, 108, 166912));
  EXPECT_EQ(gpu_traits("B200"), gpu_traits(100, 148, 232448));
  EXPECT_NE(gpu_traits("H100-PCIe"), gpu_traits("H100-SXM"));
  for (const std::string& model : known_gpus()) {
    EXPECT_EQ(gpu_traits(model).kind, DeviceKind::cuda) << model;
    EXPECT_TRUE(gpu_traits(model).native_bf16) << model;
  }
}

TEST(DeviceTraits, SayWhichGpusAreKnownAndWhichNumberIsWrong) {
  EXPECT_THAT(message_of([] { gpu_traits("H300"); }),
              AllOf(HasSubstr("'H300'"), HasSubstr("H100-SXM"), HasSubstr("B200")));
  EXPECT_THAT(message_of([] { gpu_traits(0, 132, 232448); }), HasSubstr("capability"));
  EXPECT_THAT(message_of([] { gpu_traits(90, 0, 232448); }), HasSubstr("multiprocessor"));
  EXPECT_THAT(message_of([] { gpu_traits(90, 132, -1); }), HasSubstr("-1 bytes"));
}

TEST(DeviceTraits, AreDescribedInOneLine) {
  EXPECT_EQ(gpu_traits("H100-SXM").describe(),
            "GPU of compute capability 9.0, 132 multiprocessors, 232448 bytes of shared memory a "
            "block");
  DeviceTraits cpu;
  EXPECT_EQ(cpu.describe(), "CPU, portable, 1 thread");
  cpu.threads = 4;
  cpu.instruction_set = InstructionSet::avx512;
  cpu.native_bf16 = true;
  EXPECT_EQ(cpu.describe(), "CPU, avx512 with bf16, 4 threads");
}

}  // namespace
}  // namespace trireme
