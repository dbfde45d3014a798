#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/train/memory_check.h"

namespace trireme {
namespace {

TEST(MemoryRemedies, AreWhatIsNotInForceYet) {
  Options options;
  options.micro_batch_size = 4;
  const KeyValues gpt{{"--recompute-granularity", "selective"}, {"--lm-head-chunks", "1"}};
  EXPECT_EQ(
      memory_remedies(options, gpt, 2, true),
      "a smaller --micro-batch-size, --recompute-granularity full, --lm-head-chunks 8, "
      "--use-distributed-optimizer, a --save-buffer such as 64M, more ranks for --tp or --pp");
  options.micro_batch_size = 1;
  options.use_distributed_optimizer = true;
  options.checkpoint.save_buffer = Index{64} << 20;
  const KeyValues full{{"--recompute-granularity", "full"}, {"--lm-head-chunks", "4"}};
  EXPECT_EQ(memory_remedies(options, full, 2, true),
            "a smaller --save-buffer, more ranks for --tp or --pp");
}

TEST(MemoryRemedies, AreOptionsOfTheProgramThatDoSomething) {
  EXPECT_EQ(memory_remedies({}, {}, 1, false), "more ranks for --tp or --pp");
}

}  // namespace
}  // namespace trireme
