// All layouts in all orders of streams and threads, both models.
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

class AllGpuLayouts : public testing::TestWithParam<std::size_t> {};

TEST_P(AllGpuLayouts, OfAGptAgreeWithOneCpuInEveryOrder) {
  GpuTrainingHarness harness(gpu_gpt);
  for (const EmulatedOrder& order : emulated_orders)
    harness.expect_equivalent(gpu_layouts[GetParam()], order);
}
TEST_P(AllGpuLayouts, OfALlamaAgreeWithOneCpuInEveryOrder) {
  GpuTrainingHarness harness(gpu_llama);
  for (const EmulatedOrder& order : emulated_orders)
    harness.expect_equivalent(gpu_layouts[GetParam()], order);
}

INSTANTIATE_TEST_SUITE_P(Layouts, AllGpuLayouts,
                         testing::Range(std::size_t{0}, gpu_layouts.size()));

}  // namespace
}  // namespace trireme::test
