// --bf16: how near it stays to fp32, how near layouts stay to each other, and what has to be the
// same bits. Ranks are threads of the test, but for two tests that start processes as users do.
// Bands are derived in docs/concepts/mixed_precision.md.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/finite_or_huge.h"
#include "tests/support/training_harness.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

const std::string twenty = "--hidden-size 96 --ffn-hidden-size 384 --train-iters 20 ";
const std::string bf16 = "--bf16 ";

double largest_loss_difference(const TrainingRun& a, const TrainingRun& b) {
  double largest = 0;
  require(a.steps.size() == b.steps.size(), "runs of different length");
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    largest = std::max(largest, finite_or_huge(std::abs(a.steps[i].loss / b.steps[i].loss - 1)));
  return largest;
}

void expect_same_bits(const TrainingRun& a, const TrainingRun& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].loss, b.steps[i].loss) << "step " << i + 1;
    EXPECT_EQ(a.steps[i].grad_norm, b.steps[i].grad_norm) << "step " << i + 1;
  }
  EXPECT_EQ(a.parameters.tensors, b.parameters.tensors);
}

TEST(MixedPrecision, TheLossCurveFollowsThatOfF32) {
  TrainingHarness harness(twenty);
  for (const std::string& model : {gpt, llama}) {
    SCOPED_TRACE(model);
    // With a rate of 3e-3 one batch has a gradient 25 times as long as others: its loss differs.
    const std::string options = model + "--optimizer adamw --lr 2e-3 --micro-batch-size 8 ";
    const TrainingRun wide = harness.train(ranks_as_threads(1), options);
    const TrainingRun half = harness.train(ranks_as_threads(1), options + "--bf16");
    EXPECT_THAT(harness.output(), HasSubstr("bf16: "));
    const Difference d = compare(wide, half);
    fmt::print("# {}: bf16 from f32: {}\n", model, describe(d));
    EXPECT_LT(largest_loss_difference(half, wide), 5e-3);
    EXPECT_LT(std::abs(half.steps[0].loss / wide.steps[0].loss - 1), 5e-4);
    EXPECT_LT(d.gradient, 0.03);
    EXPECT_GT(d.gradient, 1e-4);  // it really is bf16
    EXPECT_LT(half.steps.back().loss, 0.75 * half.steps.front().loss);
  }
}

struct Layout {
  int ranks;
  std::string options;
};

// The same micro-batches in the same order see the same numbers: nothing but fp32 sums of gradients
// differs.
TEST(MixedPrecision, DataAndPipelineLayoutsAgreeAsInF32) {
  TrainingHarness harness;
  for (const std::string& model : {gpt, llama}) {
    const std::string options = model + adamw + "--micro-batch-size 2 --bf16 ";
    const TrainingRun one = harness.train(ranks_as_threads(1), options);
    for (const Layout& layout : std::vector<Layout>{
             {2, ""},
             {4, "--use-distributed-optimizer"},
             {2, "--pp 2 --lm-head-chunks 5"},
             {4, "--pp 2 --schedule gpipe --use-distributed-optimizer"},
             {2, "--pp 2 --num-virtual-stages-per-pipeline-rank 2 --recompute-granularity full"}}) {
      SCOPED_TRACE(model + layout.options);
      const TrainingRun other =
          harness.train(ranks_as_threads(layout.ranks), options + layout.options);
      const Difference d = compare(one, other);
      fmt::print("# {} {} {}: {}\n", model, layout.ranks, layout.options, describe(d));
      EXPECT_LT(std::abs(other.steps[0].loss / one.steps[0].loss - 1), 2e-7);
      EXPECT_LT(d.gradient, 1e-5) << d.worst_gradient;
      EXPECT_LT(d.loss, 1e-4);
    }
  }
}

// Terms of sums over the tensor axis are rounded, and another split has other terms: as far apart
// as two roundings of one training, no farther than bf16 is from f32.
TEST(MixedPrecision, TensorLayoutsAgreeWithinTheRoundingOfBf16) {
  TrainingHarness harness;
  for (const std::string& model : {gpt, llama}) {
    const TrainingRun wide =
        harness.train(ranks_as_threads(1), model + adamw + "--micro-batch-size 2 ");
    const std::string options = model + adamw + "--micro-batch-size 2 --bf16 ";
    const TrainingRun one = harness.train(ranks_as_threads(1), options);
    for (const Layout& layout :
         std::vector<Layout>{{2, "--tp 2"},
                             {4, "--tp 4 --sequence-parallel"},
                             {3, "--tp 3 --sequence-parallel --recompute-granularity selective"},
                             {8, "--tp 2 --pp 2 --use-distributed-optimizer"}}) {
      SCOPED_TRACE(model + layout.options);
      const TrainingRun other =
          harness.train(ranks_as_threads(layout.ranks), options + layout.options);
      const Difference d = compare(one, other), from_wide = compare(wide, other);
      fmt::print("# {} {} {}: {}; from f32: {}\n", model, layout.ranks, layout.options, describe(d),
                 describe(from_wide));
      EXPECT_LT(d.loss, 4e-3);
      EXPECT_LT(d.gradient, 0.03) << d.worst_gradient;
      EXPECT_LT(from_wide.loss, 4e-3);
    }
  }
}

TEST(MixedPrecision, TheSameLayoutGivesTheSameBits) {
  TrainingHarness harness;
  const std::string options =
      gpt + adamw + "--bf16 --hidden-dropout 0.1 --tp 2 --pp 2 --micro-batch-size 2 ";
  expect_same_bits(harness.train(ranks_as_threads(8), options),
                   harness.train(ranks_as_threads(8), options));
}

// Each rank has the masters of its slices only; copies, losses and what is dumped are the same all
// the same.
TEST(MixedPrecision, TheDistributedOptimizerChangesNoBit) {
  TrainingHarness harness;
  for (const std::string& rule : {adamw, sgd}) {
    const std::string options = gpt + rule + "--bf16 --micro-batch-size 2 --bucket-size 5000 ";
    expect_same_bits(harness.train(ranks_as_threads(4), options),
                     harness.train(ranks_as_threads(4), options + "--use-distributed-optimizer"));
  }
}

TEST(MixedPrecision, RunsResumeInTheOtherTypeAndSaySo) {
  TrainingHarness harness("--hidden-size 96 --ffn-hidden-size 384 --lr-decay-iters 10 ");
  const ScratchDirectory folder;
  const std::string options = llama + adamw + "--micro-batch-size 2 ";
  for (const bool from_bf16 : {false, true}) {
    const std::string saved = "--save " + (folder / (from_bf16 ? "half" : "wide")) + " ";
    const std::string load = "--load " + (folder / (from_bf16 ? "half" : "wide")) + " ";
    harness.losses(mpirun(2),
                   options + (from_bf16 ? bf16 : "") + "--pp 2 --train-iters 5 " + saved);
    const std::vector<StepLine> whole = harness.losses(
        ranks_as_threads(1), options + (from_bf16 ? "" : bf16) + "--train-iters 10 ");
    const std::vector<StepLine> resumed = harness.losses(
        mpirun(2), options + (from_bf16 ? "" : bf16) + "--train-iters 10 --tp 2 " + load);
    EXPECT_THAT(harness.output(),
                HasSubstr(from_bf16 ? "--bf16 false (was true)" : "--bf16 true (was false)"));
    ASSERT_EQ(resumed.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(resumed[i].loss / whole[i + 5].loss, 1, 4e-3);
  }
}

TEST(MixedPrecision, SharesOfTheDistributedOptimizerResumeWithoutItAndOnOtherRanks) {
  const ScratchDirectory folder;
  TrainingHarness harness("--hidden-size 96 --ffn-hidden-size 384 --lr-decay-iters 10 ");
  const std::string options = gpt + adamw + "--bf16 --micro-batch-size 2 --hidden-dropout 0.1 ";
  const std::string zero = "--use-distributed-optimizer ";
  const std::string save = "--train-iters 5 --save ", load = "--train-iters 10 --load ";
  harness.losses(ranks_as_threads(4), options + zero + save + (folder / "shares"));
  harness.losses(ranks_as_threads(4), options + save + (folder / "whole"));
  const auto resumed = [&](int ranks, const std::string& more) {
    std::vector<double> losses;
    for (const StepLine& line : harness.losses(ranks_as_threads(ranks), options + more))
      losses.push_back(line.loss);
    return losses;
  };
  for (const int ranks : {2, 4}) {
    const std::vector<double> expected = resumed(ranks, load + (folder / "whole"));
    EXPECT_EQ(expected.size(), 5u);
    EXPECT_EQ(resumed(ranks, load + (folder / "shares")), expected);
    EXPECT_EQ(resumed(ranks, zero + load + (folder / "shares")), expected);
    EXPECT_EQ(resumed(ranks, zero + load + (folder / "whole")), expected);
  }
}

TEST(MixedPrecision, EvaluatesAndGenerates) {
  TrainingHarness harness;
  harness.train(mpirun(4), gpt + adamw +
                               "--bf16 --tp 2 --pp 2 --micro-batch-size 2 --eval-interval 5 "
                               "--eval-iters 1 --split 90,10,0 --generate 8 --dump-plan "
                               "--check-finite");
  EXPECT_THAT(harness.output(), HasSubstr("generated text:"));
  EXPECT_THAT(harness.output(), HasSubstr("computed in bf16"));
}

}  // namespace
}  // namespace trireme::test
