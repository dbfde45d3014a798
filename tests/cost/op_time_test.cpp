// The time of one step of a plan.
#include "runtime/cost/op_time.h"

#include <gtest/gtest.h>

#include "tests/cost/tiny_profile.h"

namespace trireme::cost {
namespace {

constexpr Network one_node;

TEST(ProductTime, IsThatOfItsFlopsOrOfItsBytes) {
  Profile profile = unit_profile();
  profile.efficiency = 0.5;
  profile.peak_f32 = 100;
  profile.half_k = 10;
  profile.bytes_per_s = 1e9;
  // rate 0.5 * 100 * 30 / 40
  EXPECT_DOUBLE_EQ(product_time({10, 20, 30, 2, DType::f32}, profile), 2 * 12000 / 37.5);
  profile.bytes_per_s = 1;
  EXPECT_DOUBLE_EQ(product_time({10, 20, 30, 2, DType::f32}, profile), 2 * 4 * (300 + 600 + 200));
}

TEST(ProductTime, HasTheSumOfAGradientInItsBytes) {
  Profile profile = unit_profile();
  profile.peak_bf16 = 1e9;
  const ProductWork gradient{10, 20, 30, 1, DType::bf16, DType::f32, true};
  EXPECT_DOUBLE_EQ(product_time(gradient, profile), 2 * (300 + 600) + 2 * 4 * 200);
}

TEST(ProductTime, ComesFromTheMeasurementsWhereThereAreSome) {
  Profile profile = products_only();
  profile.peak_f32 = 100;
  profile.products = {
      {16, 16, 16, DType::f32, 40}, {64, 64, 64, DType::f32, 80}, {16, 16, 16, DType::bf16, 1}};
  const auto rate = [&](Index size) {
    const ProductWork work{size, size, size, 1, DType::f32};
    return work.flops() / product_time(work, profile);
  };
  EXPECT_DOUBLE_EQ(rate(16), 40);
  EXPECT_DOUBLE_EQ(rate(64), 80);
  EXPECT_NEAR(rate(32), std::sqrt(40.0 * 80), 1e-9) << "as far from one as from the other";
  EXPECT_LT(rate(20), rate(50));
}

TEST(ProductTime, IsTheMeanOfTheKindsOfItsShape) {
  Profile profile = products_only();
  profile.peak_f32 = 100;
  profile.products = {{16, 16, 16, DType::f32, 40, "NT"}, {16, 16, 16, DType::f32, 10, "TN"}};
  const ProductWork work{16, 16, 16, 1, DType::f32};
  EXPECT_DOUBLE_EQ(work.flops() / product_time(work, profile), 20);
}

StepWork step(double bytes) {
  StepWork work;
  work.bytes = bytes;
  return work;
}

TEST(OpTime, CountsWhatNoProductMovesAsMemoryBound) {
  StepWork work = step(1000);
  work.parts.products = {{2, 3, 4, 1, DType::f32}};  // 4 * (8 + 12 + 6) = 104 bytes, 48 FLOPs
  const OpTime time = op_time(work, unit_profile(), {1, 1}, one_node);
  EXPECT_DOUBLE_EQ(time.products, 104);
  EXPECT_DOUBLE_EQ(time.memory_bound, 896);
}

TEST(OpTime, HasTheCollectivesOfTheTensorAxis) {
  StepWork work = step(600);
  work.parts.collectives = {{CollectiveWork::Kind::all_reduce, 4, 400}};  // 600 bytes a rank
  Profile profile = unit_profile();
  profile.collective_seconds = 7;
  const OpTime time = op_time(work, profile, {4, 1}, one_node);
  EXPECT_DOUBLE_EQ(time.tensor_traffic, 7 + 600);
  EXPECT_EQ(time.memory_bound, 0);
}

TEST(OpTime, AttentionHasARateOfItsOwnForBackward) {
  StepWork work = step(1);
  work.parts.attention = {{1, 8, 1, 1, 8, DType::f32, 1000}};
  Profile profile = unit_profile();
  profile.attention_forward = 0.5;
  profile.attention_backward = 0.25;
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).attention, 2000);
  work.phase = StepWork::Phase::backward;
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).attention, 4000);
}

TEST(OpTime, AttentionOfAGpuIsSlowerWithNarrowHeadsAndShortSequences) {
  const auto rate = [](int capability, Index sequence, Index head) {
    Profile profile = unit_profile();
    profile.bytes_per_s = 1e9;
    profile.device = gpu_traits(capability, 100, 100000);
    profile.peak_bf16 = 1600;
    profile.peak_f32 = 100;
    StepWork work = step(0);
    work.parts.attention = {{1, sequence, 1, 1, head, DType::bf16, 1600}};
    return 1 / op_time(work, profile, {1, 1}, one_node).attention;
  };
  constexpr Index endless = Index{1} << 40;
  EXPECT_NEAR(rate(90, endless, 128), 1, 1e-6);  // the profile's share
  // Exponentials take as long as 64 columns of a head; of an A100, which has half as many fp32
  // lanes and half the FLOPs in products, as 32.
  EXPECT_NEAR(rate(90, endless, 64), 0.5 / (128.0 / 192), 1e-6);
  EXPECT_NEAR(rate(80, endless, 64), (64.0 / 96) / (128.0 / 160), 1e-6);
  EXPECT_NEAR(rate(90, endless, 256), 1, 1e-6);  // no faster than those of 128
  EXPECT_NEAR(rate(90, 1024, 128), 1025.0 / 1152, 1e-9);
  EXPECT_NEAR(rate(90, 64, 128), 65.0 / 128, 1e-9);  // one block, as long as the sequence
}

TEST(OpTime, AttentionIsThatOfTheNearestMeasurement) {
  Profile profile = unit_profile();
  profile.bytes_per_s = 1e9;
  profile.attentions = {{256, 64, false, DType::f32, 10},
                        {4096, 64, false, DType::f32, 20},
                        {4096, 64, true, DType::f32, 5},
                        {4096, 64, false, DType::bf16, 1000}};
  StepWork work = step(0);
  work.parts.attention = {{1, 2048, 1, 1, 64, DType::f32, 100}};
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).attention, 5);
  work.phase = StepWork::Phase::backward;
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).attention, 20);
  work.parts.attention = {{1, 300, 1, 1, 64, DType::f32, 100}};
  work.phase = StepWork::Phase::recompute;
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).attention, 10);
}

TEST(OpTime, LoopsHaveTheRateOfTheirOp) {
  Profile profile = unit_profile();
  profile.loops = {{"norm", false, 10}, {"norm", true, 5}};
  StepWork work = step(100);
  work.op = "norm";
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).memory_bound, 10);
  work.phase = StepWork::Phase::backward;
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).memory_bound, 20);
  work.op = "gelu";
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).memory_bound, 100);
}

TEST(OpTime, CountsTheHostForEachKernel) {
  Profile profile = unit_profile();
  profile.op_seconds = 3;
  StepWork work = step(1);
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).host, 3);
  work.parts.products = {{1, 1, 1, 4, DType::f32}, {1, 1, 1, 1, DType::f32}};
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).host, 15);
  work.idle = true;
  EXPECT_DOUBLE_EQ(op_time(work, profile, {1, 1}, one_node).host, 0);
}

}  // namespace
}  // namespace trireme::cost
