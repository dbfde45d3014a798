// A clean-up that never ends is cut off, which takes a minute.
#include <gmock/gmock.h>

#include "tests/support/gpu_failures.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

// What all ranks know of ends without MPI_Abort; the clean-up that hangs is cut off after a minute.
TEST_F(GpuFailures, OfAllRanksEndTheJobThoughTheCleanUpHangs) {
  const Outcome outcome =
      train({"stages", 2, "--pp 2 --micro-batch-size 2"}, "--vocab-size 98", "true");
  EXPECT_NE(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "trireme error: rank "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("is outside the vocabulary of 98"));
  EXPECT_THAT(outcome.output, HasSubstr("Alarm clock"));
}

}  // namespace
}  // namespace trireme::test
