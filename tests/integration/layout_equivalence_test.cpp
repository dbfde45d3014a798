// Invariant 1 (docs/concepts/architecture.md): every mesh, schedule, micro-batch split and
// recompute setting agrees with one rank. Each layout trains the same small model on the same text,
// and is compared with a run of one rank: losses, gradient norms, every gradient of step 1, every
// parameter at the end. Ranks are threads of the test, but for layouts that have, together, every
// kind of group: these run under mpirun as well.

#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/training_harness.h"

namespace trireme::test {
namespace {

struct Layout {
  int ranks;
  std::string options;
};

// The axes one by one, then together; 2, 3, 4, 6 and 8 ranks.
const std::vector<Layout> layouts = {
    {1, "--micro-batch-size 1"},
    {1, "--micro-batch-size 4 --recompute-granularity full --lm-head-chunks 5"},
    {1, "--micro-batch-size 2 --recompute-granularity selective --threads-per-rank 3"},
    {2, "--micro-batch-size 2"},
    {4, "--micro-batch-size 1 --use-distributed-optimizer"},
    {8, "--micro-batch-size 1 --use-distributed-optimizer --bucket-size 5000"},
    {2, "--tp 2 --micro-batch-size 4 --lm-head-chunks 7"},
    {3, "--tp 3 --micro-batch-size 2"},
    {4, "--tp 4 --micro-batch-size 2 --sequence-parallel"},
    {3, "--tp 3 --micro-batch-size 4 --sequence-parallel --recompute-granularity selective"},
    {2, "--pp 2 --schedule gpipe --micro-batch-size 2"},
    {2, "--pp 2 --schedule 1f1b --micro-batch-size 1"},
    {4, "--pp 4 --schedule 1f1b --micro-batch-size 1 --recompute-granularity full"},
    {4, "--pp 4 --schedule gpipe --micro-batch-size 4 --lm-head-chunks 2"},
    {2,
     "--pp 2 --schedule interleaved --num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 2"},
    {4, "--tp 2 --micro-batch-size 2 --use-distributed-optimizer --sequence-parallel"},
    {4, "--pp 2 --micro-batch-size 1 --use-distributed-optimizer"},
    {4, "--tp 2 --pp 2 --micro-batch-size 2 --recompute-granularity full"},
    {6, "--tp 3 --micro-batch-size 1 --use-distributed-optimizer"},
    {8, "--tp 2 --pp 2 --micro-batch-size 1"},
    {8, "--tp 2 --pp 2 --micro-batch-size 2 --use-distributed-optimizer --sequence-parallel"},
    {8,
     "--tp 2 --pp 2 --schedule interleaved --num-virtual-stages-per-pipeline-rank 2 "
     "--micro-batch-size 1 --use-distributed-optimizer --sequence-parallel "
     "--recompute-granularity full --lm-head-chunks 5"},
    {2, "--micro-batch-size 2 --data-parallel-shares 3,1"},
    {6,
     "--pp 2 --micro-batch-size 1 --data-parallel-shares 2,1,1 --use-distributed-optimizer "
     "--bucket-size 5000 --optimizer-shares 1,0,2"},
    {8, "--tp 4 --pp 2 --schedule gpipe --micro-batch-size 4 --sequence-parallel"},
    {8, "--pp 4 --schedule 1f1b --micro-batch-size 1 --recompute-granularity selective"},
    {4, "--pp 4 --schedule zero-bubble --micro-batch-size 1 --lm-head-chunks 3"},
    {8,
     "--tp 2 --pp 2 --schedule zero-bubble --micro-batch-size 1 --use-distributed-optimizer "
     "--sequence-parallel --recompute-granularity full"},
    {2, "--pp 2 --schedule zero-bubble-v --micro-batch-size 2 --lm-head-chunks 3"},
    {8,
     "--tp 2 --pp 2 --schedule zero-bubble-v --micro-batch-size 1 --use-distributed-optimizer "
     "--sequence-parallel --recompute-granularity selective"},
};

class Reference {
 public:
  explicit Reference(const std::string& model)
      : model_(model), run_(harness_.train(ranks_as_threads(1), model + "--micro-batch-size 8")) {}

  void expect_equivalent(const RankStart& start, const Layout& layout) {
    SCOPED_TRACE(str(layout.ranks, " ranks, ", layout.options));
    const Difference difference = compare(run_, harness_.train(start, model_ + layout.options));
    fmt::print("# {} ranks, {}: {}\n", layout.ranks, layout.options, describe(difference));
    EXPECT_TRUE(within_limits(difference)) << describe(difference);
  }

 private:
  TrainingHarness harness_;
  std::string model_;
  TrainingRun run_;
};

// `first`, `stride`: which layouts; together the tests below cover every layout with each model and
// optimizer once.
void expect_equivalent(const std::string& model, std::size_t first, std::size_t stride) {
  Reference reference(model);
  for (std::size_t i = first; i < layouts.size(); i += stride)
    reference.expect_equivalent(ranks_as_threads(layouts[i].ranks), layouts[i]);
}

TEST(LayoutEquivalence, GptWithAdamW) { expect_equivalent(gpt + adamw, 0, 2); }
TEST(LayoutEquivalence, GptWithSgd) { expect_equivalent(gpt + sgd, 1, 2); }
TEST(LayoutEquivalence, LlamaWithSgd) { expect_equivalent(llama + sgd, 0, 2); }
TEST(LayoutEquivalence, LlamaWithAdamW) { expect_equivalent(llama + adamw, 1, 2); }
// AdamW takes as large a step where a gradient is only rounding, which norms of queries would
// spread.
TEST(LayoutEquivalence, Qwen3WithSgd) { expect_equivalent(qwen3 + sgd, 2, 5); }
TEST(LayoutEquivalence, GptWithDropout) {
  expect_equivalent(gpt + adamw + "--hidden-dropout 0.1 ", 3, 4);
}

// Data, tensor and pipeline axis, the ends of a pipeline that share the embedding, the ranks that
// have the loss; groups of 2 and 3.
const std::vector<Layout> under_mpirun = {
    {1, "--micro-batch-size 4 --threads-per-rank 2"},
    {3, "--tp 3 --micro-batch-size 4 --sequence-parallel --lm-head-chunks 5"},
    {6,
     "--pp 2 --micro-batch-size 1 --data-parallel-shares 2,1,1 --use-distributed-optimizer "
     "--bucket-size 5000 --optimizer-shares 1,0,2"},
    {8,
     "--tp 2 --pp 2 --schedule interleaved --num-virtual-stages-per-pipeline-rank 2 "
     "--micro-batch-size 1 --use-distributed-optimizer --sequence-parallel "
     "--recompute-granularity full"},
    {8, "--tp 2 --pp 2 --schedule zero-bubble-v --micro-batch-size 1"},
};

TEST(LayoutEquivalence, OfEveryKindOfGroupUnderMpirun) {
  Reference reference(gpt + adamw + "--hidden-dropout 0.1 ");
  for (const Layout& layout : under_mpirun)
    reference.expect_equivalent(mpirun(layout.ranks), layout);
}

void expect_same_bits(const TrainingRun& first, const TrainingRun& second) {
  ASSERT_EQ(first.steps.size(), second.steps.size());
  for (std::size_t i = 0; i < first.steps.size(); ++i) {
    EXPECT_EQ(first.steps[i].loss, second.steps[i].loss);
    EXPECT_EQ(first.steps[i].grad_norm, second.steps[i].grad_norm);
  }
  EXPECT_EQ(first.parameters.tensors, second.parameters.tensors);
}

TEST(Repetition, TheSameLayoutGivesTheSameBits) {
  TrainingHarness harness;
  for (const Layout& layout : {layouts[0], layouts[20], layouts[21]}) {
    SCOPED_TRACE(layout.options);
    const std::string options = gpt + adamw + "--hidden-dropout 0.1 " + layout.options;
    const auto train = [&] { return harness.train(ranks_as_threads(layout.ranks), options); };
    const TrainingRun first = train();
    expect_same_bits(first, train());
    if (layout.ranks == 1) expect_same_bits(first, harness.train("", options));
  }
}

TEST(Repetition, ProcessesGiveTheBitsOfThreads) {
  TrainingHarness harness;
  const Layout& layout = layouts[21];
  const std::string options = gpt + adamw + "--hidden-dropout 0.1 " + layout.options;
  const TrainingRun processes = harness.train(mpirun(layout.ranks), options);
  expect_same_bits(processes, harness.train(mpirun(layout.ranks), options));
  expect_same_bits(processes, harness.train(ranks_as_threads(layout.ranks), options));
}

}  // namespace
}  // namespace trireme::test
