// What a job says of checkpoints that are not part of its run.
#include "runtime/checkpoint/set_aside.h"

#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

TEST(SetAside, IsOneLineThatCountsThemAndSaysHowToContinue) {
  CheckpointOptions options;
  options.save = "mine";
  const std::string scratch =
      ": without --load this run starts from scratch; to continue from one of them instead: stop, "
      "rename it to mine/step-NNNNNN, and start with --load mine";
  EXPECT_EQ(describe_set_aside(options, {"step-9.aside-a", "step-5.aside-a", "step-2.aside-a"}, 0),
            "set aside 3 checkpoints of mine, step-2.aside-a to step-9.aside-a" + scratch);
  EXPECT_EQ(describe_set_aside(options, {"step-9.aside-a"}, 0),
            "set aside mine/step-9.aside-a" + scratch);
  options.load = "mine";
  EXPECT_EQ(describe_set_aside(options, {"step-9.aside-a", "step-5.aside-a"}, 2),
            "set aside 2 checkpoints of mine, step-5.aside-a to step-9.aside-a: this run resumes "
            "from step 2");
}

}  // namespace
}  // namespace trireme::checkpoint
