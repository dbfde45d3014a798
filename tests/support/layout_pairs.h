// LayoutPairs: every layout loads what any other one has saved. For each pair of layouts the second
// one loads a checkpoint of the first and saves it again, with the same bits. Then it continues
// training like one rank that was never interrupted. Ranks are threads of the test's process, or
// those of mpirun.
#pragma once

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/store/steps.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

namespace trireme::test {

// Each axis alone and together, 1 to 8 ranks. 3 does not divide the vocabulary, which is padded
// there. Small buckets put the pieces of a sharded optimizer into many boxes.
inline const std::vector<Layout> all_layouts = {
    {"one rank", 1, "--micro-batch-size 8"},
    {"data 2", 2, "--micro-batch-size 4"},
    {"data 2, ZeRO", 2, "--micro-batch-size 2 --use-distributed-optimizer"},
    {"data 4, ZeRO, small buckets", 4,
     "--micro-batch-size 1 --use-distributed-optimizer --bucket-size 5000"},
    {"tensor 2", 2, "--tp 2 --micro-batch-size 4"},
    {"tensor 2, sequence parallel", 2, "--tp 2 --micro-batch-size 4 --sequence-parallel"},
    {"tensor 3, padded vocabulary", 3, "--tp 3 --micro-batch-size 4"},
    {"pipeline 2", 2, "--pp 2 --micro-batch-size 2"},
    {"pipeline 2, 2 chunks", 2,
     "--pp 2 --num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 2"},
    {"data 2 x tensor 2, ZeRO, unequal shares", 4,
     "--tp 2 --micro-batch-size 2 --use-distributed-optimizer --data-parallel-shares 3,1 "
     "--optimizer-shares 1,4"},
    {"data 2 x pipeline 2 x tensor 2, zero bubble", 8,
     "--tp 2 --pp 2 --schedule zero-bubble --micro-batch-size 1"},
    {"data 2 x pipeline 2 x tensor 2, ZeRO, sequence parallel, zero bubble in a V", 8,
     "--tp 2 --pp 2 --schedule zero-bubble-v --micro-batch-size 1 "
     "--use-distributed-optimizer --sequence-parallel"},
};

enum class Ranks { threads, processes };

class LayoutPairs {
 public:
  /// `used`: the places of layouts that pairs will have.
  LayoutPairs(const std::string& model, Ranks ranks, const std::vector<std::size_t>& used)
      : jobs_(model), ranks_(ranks) {
    jobs_.train(all_layouts[0], "--train-iters 7 --save " + (jobs_ / "straight"));
    reference_ = read(jobs_ / "straight");
    for (const std::size_t i : used) train(i, str("--train-iters 4 --save ", saved(i)));
  }

  void expect_loads(std::size_t from, std::size_t to) {
    SCOPED_TRACE("from " + all_layouts[from].name + " to " + all_layouts[to].name);
    const std::string pair = str(from, "-", to);
    expect_same_bits(from, to, jobs_ / ("again-" + pair));
    expect_trains_on(from, to, jobs_ / ("on-" + pair));
  }

 private:
  std::string saved(std::size_t layout) const { return jobs_ / str("saved-", layout); }

  /// Throws: Error when it fails.
  void train(std::size_t layout, const std::string& options) const {
    if (ranks_ == Ranks::threads)
      jobs_.train(all_layouts[layout], options);
    else
      jobs_.succeed(jobs_.training(all_layouts[layout], options));
  }

  void expect_same_bits(std::size_t from, std::size_t to, const std::string& again) {
    train(to, str("--train-iters 4 --load ", saved(from), " --save ", again));
    ASSERT_EQ(committed_steps(again), std::vector<Index>{4});
    const std::string a = saved(from) + "/" + step_name(4), b = again + "/" + step_name(4);
    EXPECT_EQ(first_difference(read_checkpoint(a), read_checkpoint(b)), "");
    if (ranks_ == Ranks::threads) return;  // the command says the same as the line above
    const Outcome diff = jobs_.run(CheckpointJobs::trireme("checkpoint diff " + a + " " + b));
    EXPECT_EQ(diff.exit_code, 0) << diff.output;
  }

  void expect_trains_on(std::size_t from, std::size_t to, const std::string& on) {
    train(to, str("--train-iters 7 --load ", saved(from), " --save ", on));
    const Difference difference = compare(reference_, read(on));
    EXPECT_TRUE(within_limits(difference)) << describe(difference);
  }

  /// Steps 5 to 7, and the parameters after them.
  static TrainingRun read(const std::string& root) {
    return {steps_of(read_metrics(root + "/metrics.jsonl"), 4),
            {},
            parameters_of(read_checkpoint(root + "/" + step_name(7)))};
  }

  CheckpointJobs jobs_;
  Ranks ranks_;
  TrainingRun reference_;
};

inline std::vector<std::size_t> every_layout() {
  std::vector<std::size_t> all(all_layouts.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

}  // namespace trireme::test
