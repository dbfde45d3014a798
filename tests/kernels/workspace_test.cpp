// Workspaces of devices that this machine does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/attention.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/embedding.h"
#include "trireme/kernels/instruction_set.h"
#include "trireme/kernels/norm.h"

#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(Workspaces, OfAGpuFollowFromItsNumbers) {
  const DeviceTraits h100 = gpu_traits("H100-SXM"), l40s = gpu_traits("L40S");
  // One sum of each channel and block for both gradients: two blocks of 256 threads a
  // multiprocessor.
  EXPECT_EQ(norm_backward_workspace_bytes(h100, 1 << 20, 768), 2 * 132 * 2 * 768 * 4);
  EXPECT_EQ(norm_backward_workspace_bytes(l40s, 1 << 20, 768), 2 * 142 * 2 * 768 * 4);
  EXPECT_EQ(embedding_backward_workspace_bytes(h100, 1000), 16000);

  const AttentionShape shape{2, 1024, 12, 12, 128};
  const auto backward = [&](const DeviceTraits& device, DType dtype) {
    return attention_backward_workspace_bytes(device, shape, dtype, AttentionChoice::automatic);
  };
  EXPECT_EQ(backward(h100, DType::bf16), 2 * 12 * 1024 * 4);
  EXPECT_EQ(backward(h100, DType::f32), backward(h100, DType::bf16));
  EXPECT_EQ(backward(l40s, DType::bf16), backward(h100, DType::bf16));
  EXPECT_THAT(message_of([&] { backward(l40s, DType::f32); }),
              HasSubstr("bytes of shared memory a block, and this GPU gives 101376"));
}

TEST(Workspaces, OfThisCpuAreThoseOfItsTraits) {
  for (const int threads : {1, 3}) {
    const CpuOptions options{.threads = threads};
    EXPECT_EQ(cpu_traits(options), open_cpu(options)->traits());
  }
}

TEST(Workspaces, SayWhichCpuThisMachineCannotPlanFor) {
  DeviceTraits other;
  for (const InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    other.instruction_set = set;
    const auto attention = [&] {
      attention_forward_workspace_bytes(other, {1, 8, 2, 2, 4}, DType::f32,
                                        AttentionChoice::automatic);
    };
    if (available(set))
      EXPECT_NO_THROW(attention());
    else
      EXPECT_THAT(message_of(attention),
                  HasSubstr(str("DeviceTraits::instruction_set is ", name(set), ", which this ")));
  }
}

}  // namespace
}  // namespace trireme
