// The module of the emulation, loaded as a program loads libtrireme_cuda.so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/kernels/attention.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/kernels.h"

#include "kernels/cuda.h"

namespace trireme {
namespace {

CudaOptions emulated() { return {.module = TRIREME_EMULATED_MODULE}; }

TEST(EmulatedModule, RunsAKernel) {
  const auto gpu = open_cuda(emulated());
  EXPECT_EQ(gpu->kind(), DeviceKind::cuda);
  EXPECT_THAT(gpu->describe(), testing::HasSubstr("host emulation"));
  const auto stream = gpu->make_stream();
  const Buffer memory = gpu->allocate(12);
  auto* x = reinterpret_cast<float*>(memory.data());
  std::vector<float> host = {1, 2, 3};
  stream->copy(x, host.data(), 12);
  gpu->kernels().elementwise.add(*stream, {3, x, x, x});
  stream->copy(host.data(), x, 12);
  stream->synchronize();
  EXPECT_THAT(host, testing::ElementsAre(2, 4, 6));
}

TEST(EmulatedModule, DistinguishesGpusAsNvidiaSmiDoes) {
  std::string reason;
  const std::vector<std::string> gpus = find_gpus(emulated(), reason);
  EXPECT_EQ(reason, "");
  ASSERT_EQ(gpus.size(), 8u);
  EXPECT_EQ(gpus[3], "GPU-00000000-0000-0000-0000-000000000003");
  CudaOptions third = emulated();
  third.index = 3;
  EXPECT_EQ(open_cuda(third)->identity(), gpus[3]);
}

/// Why no GPU can be used where the emulation's `variable` is `value`.
std::string refusal(const char* variable, const char* value) {
  setenv(variable, value, 1);
  std::string reason;
  EXPECT_TRUE(find_gpus(emulated(), reason).empty()) << variable << "=" << value;
  unsetenv(variable);
  return reason;
}

TEST(EmulatedModule, SaysWhyNoGpuCanBeUsed) {
  EXPECT_EQ(refusal("EMULATION_DRIVER", "0"), "there is no NVIDIA driver");
  EXPECT_THAT(refusal("EMULATION_DRIVER", "12040"),
              testing::HasSubstr("the NVIDIA driver is for CUDA 12.4, and this build needs 13."));
  EXPECT_THAT(refusal("EMULATION_DEVICES", "0"), testing::HasSubstr("no CUDA-capable device"));
  EXPECT_THAT(refusal("EMULATION_CAPABILITY", "75"),
              testing::HasSubstr(
                  "GPU 0 (host emulation) has compute capability 7.5, and 8.0 is the least"));
}

TEST(EmulatedModule, AGpuWithLittleSharedMemoryRefusesWideHeadsBeforeTheyRun) {
  ::setenv("EMULATION_CAPABILITY", "89", 1);
  ::setenv("EMULATION_SHARED_KB", "99", 1);
  const auto gpu = open_cuda(emulated());
  const auto bytes = [&](Index head, DType dtype, AttentionChoice choice) {
    return attention_backward_workspace_bytes(gpu->traits(), {1, 8, 2, 2, head}, dtype, choice);
  };
  EXPECT_EQ(bytes(96, DType::f32, AttentionChoice::automatic), 64);
  EXPECT_EQ(bytes(128, DType::bf16, AttentionChoice::automatic), 64);
  const auto refusal = [&](DType dtype, AttentionChoice choice) -> std::string {
    try {
      return std::to_string(bytes(128, dtype, choice));
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal(DType::f32, AttentionChoice::automatic),
              testing::HasSubstr("by simt with heads of 128 in f32 needs 110848 bytes of shared "
                                 "memory a block, and this GPU gives 101376"));
  EXPECT_THAT(refusal(DType::bf16, AttentionChoice::simt),
              testing::HasSubstr("by simt with heads of 128 in bf16 needs 110848 bytes"));
  EXPECT_THAT(refusal(DType::f32, AttentionChoice::mma), testing::HasSubstr("mma"));
  ::unsetenv("EMULATION_CAPABILITY");
  ::unsetenv("EMULATION_SHARED_KB");
}

TEST(EmulatedModule, AFileThatIsNoModuleIsAReasonAndNoError) {
  const CudaOptions nowhere{.module = "/nowhere/libtrireme_cuda.so"};
  std::string reason;
  EXPECT_TRUE(find_gpus(nowhere, reason).empty());
  EXPECT_THAT(reason, testing::HasSubstr("/nowhere/libtrireme_cuda.so"));
  EXPECT_THROW(open_cuda(nowhere), Error);
}

}  // namespace
}  // namespace trireme
