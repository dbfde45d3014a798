#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

/// What the workspace holds does not matter. It is not compared: the devices want different ones.
void attention_agrees(const AttentionShape& s, Write write = Write::assign, Index shift = 0,
                      float range = 1, double tolerance = 4e-6) {
  SCOPED_TRACE(str("batch ", s.batch, " sequence ", s.sequence, " heads ", s.query_heads, "/",
                   s.kv_heads, " of ", s.head_dim));
  const Index rows = s.batch * s.sequence, y_count = rows * s.query_heads * s.head_dim;
  const Index count = rows * (s.query_heads + 2 * s.kv_heads) * s.head_dim;
  expect_twins(
      [&](Bench& b) {
        const AttentionKernels& k = b.kernels().attention;
        Device& device = b.stream().device();
        const Buffer forward = device.allocate(k.forward_workspace_bytes(device, s));
        const Buffer backward = device.allocate(k.backward_workspace_bytes(device, s));
        const float* qkv = b.put(random_floats(count, "qkv", -range, range), shift);
        const float* dy = b.put(random_floats(y_count, "dy"), shift);
        float* y = b.put(Floats(static_cast<std::size_t>(y_count)), shift);
        float* sums = b.put(Floats(static_cast<std::size_t>(rows * s.query_heads)));
        float* dqkv = b.put(random_floats(count, "dqkv"), shift);
        k.forward(b.stream(), {s, qkv, y, sums, forward.data()});
        k.backward(b.stream(), {s, qkv, y, sums, dy, dqkv, write, backward.data()});
        b.stream().synchronize();
      },
      tolerance);
}

TEST(CudaAttention, AgreesForUsualHeads) {
  for (const Index dim : {32, 64, 96, 128})
    for (const Write write : {Write::assign, Write::add})
      attention_agrees({1, 70, 2, 2, dim}, write);
}

TEST(CudaAttention, AgreesForOddSizes) {
  attention_agrees({1, 1, 1, 1, 1});
  attention_agrees({2, 31, 3, 3, 5});
  attention_agrees({1, 33, 1, 1, 33}, Write::add);
  attention_agrees({1, 17, 1, 1, 100});
  attention_agrees({2, 64, 1, 1, 40});
  attention_agrees({1, 65, 1, 1, 8}, Write::add, 1);
  attention_agrees({1, 20, 2, 1, 72}, Write::assign, 2);
}

TEST(CudaAttention, AgreesAcrossManyBlocks) {
  attention_agrees({1, 200, 1, 1, 16});
  attention_agrees({1, 129, 1, 1, 104});
}

TEST(CudaAttention, SharesKeysAmongGroupsOfQueries) {
  attention_agrees({2, 50, 6, 2, 8});
  attention_agrees({2, 70, 4, 1, 32}, Write::add);
}

TEST(CudaAttention, StaysFiniteForLargeScores) {
  attention_agrees({1, 97, 1, 1, 64}, Write::assign, 0, 12, 3e-5);
}

TEST(CudaAttention, RejectsWhatItCannotDo) {
  const auto device = open_gpu();
  const AttentionKernels& k = device->kernels().attention;
  EXPECT_THROW(k.forward_workspace_bytes(*device, {1, 8, 5, 2, 4}), Error);
  EXPECT_THROW(k.backward_workspace_bytes(*device, {1, 8, 2, 2, 136}), Error);
}

}  // namespace
}  // namespace trireme::test
