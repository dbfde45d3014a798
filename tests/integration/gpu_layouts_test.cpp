// Every layout once on emulated GPUs, with another order of streams and threads each; the whole
// product of models, layouts and orders is in gpu_layouts_long_test.cpp.
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

OrderedLayout in_its_order(std::size_t layout) {
  return {gpu_layouts[layout], emulated_orders[layout % emulated_orders.size()]};
}

/// Layouts `first`, `first` + 2, ...
void expect_equivalent(const std::string& model, std::size_t first) {
  std::vector<OrderedLayout> some;
  for (std::size_t i = first; i < gpu_layouts.size(); i += 2) some.push_back(in_its_order(i));
  GpuTrainingHarness(model).expect_equivalent(some);
}

TEST(GpuLayouts, OfAGptAgreeWithOneCpu) { expect_equivalent(gpu_gpt, 0); }
TEST(GpuLayouts, OfALlamaAgreeWithOneCpu) { expect_equivalent(gpu_llama, 1); }
TEST(GpuLayouts, OfAQwen3AgreeWithOneCpu) {
  GpuTrainingHarness(gpu_qwen3).expect_equivalent({in_its_order(3), in_its_order(5)});  // tp, pp
}

}  // namespace
}  // namespace trireme::test
