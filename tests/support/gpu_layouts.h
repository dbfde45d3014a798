// Layouts that train on emulated GPUs, each compared with one CPU rank (invariant 1 of
// docs/concepts/architecture.md): kernels, streams and collectives of the CUDA module together.
// Streams run in one of the legal orders.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/emulated_gpu.h"
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

class GpuTrainingHarness {
 public:
  explicit GpuTrainingHarness(std::string model)
      : model_(std::move(model)),
        reference_(harness_.train("", model_ + "--device cpu --micro-batch-size 8")) {}

  void expect_equivalent(const GpuLayout& layout, const EmulatedOrder& order) {
    SCOPED_TRACE(
        str(layout.ranks, " ranks, ", layout.options, ", ", order.streams, ", ", order.threads));
    const TrainingRun run = harness_.train(on_emulated_gpus(order) + mpirun(layout.ranks),
                                           model_ + "--device cuda " + layout.options);
    const Difference difference = compare(reference_, run);
    fmt::print("# {} ranks, {}, {}: {}\n", layout.ranks, layout.options, order.streams,
               describe(difference));
    EXPECT_TRUE(within_limits(difference)) << describe(difference);
  }

 private:
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
