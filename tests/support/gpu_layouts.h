// Layouts that train on emulated GPUs, each compared with one CPU rank (invariant 1 of
// docs/concepts/architecture.md): kernels, streams and collectives of the CUDA module together.
// Streams run in one of the legal orders.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/emulated_gpu.h"
#include "tests/support/process.h"
#include "tests/support/training_harness.h"

namespace trireme::test {

struct GpuLayout {
  int ranks;
  std::string options;
};
/// The name of a test that has it as its parameter.
inline void PrintTo(const GpuLayout& layout, std::ostream* out) {
  *out << layout.ranks << " ranks, " << layout.options;
}

// The axes one by one, then together.
inline const std::vector<GpuLayout> gpu_layouts = {
    {2, "--micro-batch-size 2"},
    {2, "--micro-batch-size 1 --use-distributed-optimizer --bucket-size 5000"},
    {2, "--tp 2 --micro-batch-size 4 --lm-head-chunks 5"},
    {2, "--tp 2 --micro-batch-size 2 --sequence-parallel"},
    {2, "--pp 2 --schedule 1f1b --micro-batch-size 2"},
    {2,
     "--pp 2 --schedule interleaved --num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 2 "
     "--recompute-granularity full"},
    {4,
     "--tp 2 --micro-batch-size 2 --use-distributed-optimizer --sequence-parallel "
     "--optimizer-shares 3,1"},
    {8,
     "--tp 2 --pp 2 --micro-batch-size 1 --lm-head-chunks 7 --data-parallel-shares 3,1 "
     "--check-collectives"},
    {2, "--pp 2 --schedule zero-bubble --micro-batch-size 2 --lm-head-chunks 3"},
    {2, "--pp 2 --schedule zero-bubble-v --micro-batch-size 2"},
};

inline const std::vector<EmulatedOrder> emulated_orders = {
    {"eager", "forward"},    {"lazy", "reverse"},     {"ahead:1", "random:1"},
    {"random:1", "forward"}, {"random:2", "reverse"}, {"ahead:2", "forward"}};

inline const std::string gpu_width = "--hidden-size 32 --ffn-hidden-size 64 --train-iters 3 ";

/// A layout, and the order that it runs in.
struct OrderedLayout {
  GpuLayout layout;
  EmulatedOrder order;
};

class GpuTrainingHarness {
 public:
  explicit GpuTrainingHarness(std::string model)
      : model_(std::move(model)),
        reference_(harness_.train(ranks_as_threads(1), model_ + "--micro-batch-size 8")) {}

  /// One start for all layouts of as many ranks.
  void expect_equivalent(const std::vector<OrderedLayout>& layouts) {
    std::map<int, std::vector<OrderedLayout>> by_ranks;
    for (const OrderedLayout& each : layouts) by_ranks[each.layout.ranks].push_back(each);
    for (const auto& [ranks, some] : by_ranks) expect_equivalent(ranks, some);
  }

 private:
  void expect_equivalent(int ranks, const std::vector<OrderedLayout>& layouts) {
    std::vector<TrainingHarness::Job> jobs;
    for (const auto& [layout, order] : layouts)
      jobs.push_back({variables_of(order), model_ + "--device cuda " + layout.options});
    const std::vector<TrainingRun> runs =
        harness_.train_all(on_emulated_gpus() + mpirun(ranks, jobs.size()), jobs);
    EXPECT_EQ(count(harness_.output(), "device: GPU 0 "), static_cast<int>(jobs.size()));
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const auto& [layout, order] = layouts[i];
      const Difference difference = compare(reference_, runs[i]);
      const std::string which =
          str(ranks, " ranks, ", layout.options, ", ", order.streams, ", ", order.threads);
      fmt::print("# {}: {}\n", which, describe(difference));
      EXPECT_TRUE(within_limits(difference)) << which << ": " << describe(difference);
    }
  }

  TrainingHarness harness_{gpu_width};
  std::string model_;
  TrainingRun reference_;
};

inline const std::string gpu_gpt =
    "--model gpt2-124m --num-attention-heads 4 --optimizer adamw --lr 3e-3 ";
inline const std::string gpu_llama =
    "--model llama-1b --num-attention-heads 4 --num-query-groups 2 --optimizer sgd --lr 0.1 ";
/// Norms of queries and keys, heads that are wider than width / heads, scaled positions.
inline const std::string gpu_qwen3 =
    "--model qwen3-0.6b --num-attention-heads 4 --num-query-groups 2 --kv-channels 16 "
    "--add-qkv-bias --rope-type llama3 --rope-original-positions 16 --optimizer sgd --lr 0.1 ";

}  // namespace trireme::test
