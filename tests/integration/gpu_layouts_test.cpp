// Every layout once on emulated GPUs, with another order of streams and threads each; the whole
// product of models, layouts and orders is in gpu_layouts_long_test.cpp.
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

/// Layouts `first`, `first` + 2, ...
void expect_equivalent(const std::string& model, std::size_t first) {
  GpuTrainingHarness harness(model);
  for (std::size_t i = first; i < gpu_layouts.size(); i += 2)
    harness.expect_equivalent(gpu_layouts[i], emulated_orders[i % emulated_orders.size()]);
}

TEST(GpuLayouts, OfAGptAgreeWithOneCpu) { expect_equivalent(gpu_gpt, 0); }
TEST(GpuLayouts, OfALlamaAgreeWithOneCpu) { expect_equivalent(gpu_llama, 1); }
TEST(GpuLayouts, OfAQwen3AgreeWithOneCpu) {
  GpuTrainingHarness harness(gpu_qwen3);
  for (const std::size_t i : {std::size_t{3}, std::size_t{5}})  // --tp and --pp
    harness.expect_equivalent(gpu_layouts[i], emulated_orders[i % emulated_orders.size()]);
}

}  // namespace
}  // namespace trireme::test
