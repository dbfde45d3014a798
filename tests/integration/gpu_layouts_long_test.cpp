// All layouts in all orders of streams and threads, both models.
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

void expect_equivalent_in_every_order(const std::string& model) {
  std::vector<OrderedLayout> all;
  for (const GpuLayout& layout : gpu_layouts)
    for (const EmulatedOrder& order : emulated_orders) all.push_back({layout, order});
  GpuTrainingHarness(model).expect_equivalent(all);
}

TEST(AllGpuLayouts, OfAGptAgreeWithOneCpuInEveryOrder) {
  expect_equivalent_in_every_order(gpu_gpt);
}
TEST(AllGpuLayouts, OfALlamaAgreeWithOneCpuInEveryOrder) {
  expect_equivalent_in_every_order(gpu_llama);
}

}  // namespace
}  // namespace trireme::test
