// The module of the emulation, loaded as a program loads libtrireme_cuda.so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/kernels/cuda.h"
#include "trireme/kernels/kernels.h"

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
  gpu->kernels().elementwise.scale(*stream, {3, x, 2.0f});
  stream->copy(host.data(), x, 12);
  stream->synchronize();
  EXPECT_THAT(host, testing::ElementsAre(2, 4, 6));
}

TEST(EmulatedModule, SaysHowManyGpusThereAre) {
  std::string reason;
  EXPECT_GE(count_gpus(emulated(), reason), 1);
  EXPECT_EQ(reason, "");
}

TEST(EmulatedModule, AFileThatIsNoModuleIsAReasonAndNoError) {
  const CudaOptions nowhere{.module = "/nowhere/libtrireme_cuda.so"};
  std::string reason;
  EXPECT_EQ(count_gpus(nowhere, reason), 0);
  EXPECT_THAT(reason, testing::HasSubstr("/nowhere/libtrireme_cuda.so"));
  EXPECT_THROW(open_cuda(nowhere), Error);
}

}  // namespace
}  // namespace trireme
