// The options that are offered when memory is short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/train/memory_check.h"

namespace trireme::train {
namespace {

TEST(MemoryRemedies, AreWhatIsNotInForceYet) {
  Options options;
  options.micro_batch_size = 4;
  const KeyValues gpt{{"--recompute-granularity", "selective"}, {"--lm-head-chunks", "1"}};
  EXPECT_EQ(memory_remedies(options, gpt, 2, true, {.of_gpu = true, .ranks = 1}),
            "a smaller --micro-batch-size, --recompute-granularity full, --lm-head-chunks 8, "
            "--use-distributed-optimizer, a --save-buffer such as 64M, more GPUs: more ranks for "
            "--tp or --pp");
  options.micro_batch_size = 1;
  options.use_distributed_optimizer = true;
  options.checkpoint.save_buffer = Index{64} << 20;
  const KeyValues full{{"--recompute-granularity", "full"}, {"--lm-head-chunks", "4"}};
  EXPECT_EQ(memory_remedies(options, full, 2, true, {.of_gpu = true, .ranks = 1}),
            "a smaller --save-buffer, more GPUs: more ranks for --tp or --pp");
  options.optimizer_shares = {3, 1};
  EXPECT_EQ(memory_remedies(options, full, 2, false, {.of_gpu = true, .ranks = 1}),
            "a smaller share of this data rank in --optimizer-shares, more GPUs: more ranks for "
            "--tp or --pp");
}

TEST(MemoryRemedies, AreOptionsOfTheProgramThatDoSomething) {
  EXPECT_EQ(memory_remedies({}, {}, 1, false, {.of_gpu = true, .ranks = 1}),
            "more GPUs: more ranks for --tp or --pp");
}

// Ranks of a node share its memory: more of them there would not help.
TEST(MemoryRemedies, OfANodeAreMoreMachines) {
  EXPECT_EQ(memory_remedies({}, {}, 1, false, {.of_gpu = false, .ranks = 1}),
            "more machines, with a rank each for --tp or --pp");
  EXPECT_EQ(memory_remedies({}, {}, 1, false, {.of_gpu = false, .ranks = 4}),
            "the same ranks on more machines");
  EXPECT_EQ(memory_remedies({}, {}, 2, false, {.of_gpu = false, .ranks = 4}),
            "--use-distributed-optimizer, a larger --tp or --pp for the same ranks, the same ranks "
            "on more machines");
}

}  // namespace
}  // namespace trireme::train
