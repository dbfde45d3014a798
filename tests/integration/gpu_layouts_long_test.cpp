// All layouts in each order of streams and threads, both models.
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

class AllGpuLayouts : public testing::TestWithParam<EmulatedOrder> {
 protected:
  static void expect_equivalent(const std::string& model) {
    std::vector<OrderedLayout> all;
    for (const GpuLayout& layout : gpu_layouts) all.push_back({layout, GetParam()});
    GpuTrainingHarness(model).expect_equivalent(all);
  }
};

TEST_P(AllGpuLayouts, OfAGptAgreeWithOneCpuInEveryOrder) { expect_equivalent(gpu_gpt); }
TEST_P(AllGpuLayouts, OfALlamaAgreeWithOneCpuInEveryOrder) { expect_equivalent(gpu_llama); }

INSTANTIATE_TEST_SUITE_P(Orders, AllGpuLayouts, testing::ValuesIn(emulated_orders));

}  // namespace
}  // namespace trireme::test
