// What a user sees when a job on GPUs fails: the first error, once, though the clean-up behind it
// never ends.
#include "tests/support/gpu_failures.h"

#include <gmock/gmock.h>

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// In the second step, with gradients of all ranks on their way; and with tied embeddings, whose
// group ends with the trainer.
TEST_F(GpuFailures, OfALaunchOnOneRankAreTheOneMessage) {
  for (const Layout& layout : {Layout{"data", 2, "--micro-batch-size 2 --bucket-size 5000"},
                               Layout{"stages", 2, "--pp 2 --micro-batch-size 2"}}) {
    SCOPED_TRACE(layout.name);
    const Outcome outcome =
        train(layout, "--vocab-size 256",
              "[ $OMPI_COMM_WORLD_RANK = 1 ] && export EMULATION_REFUSED_LAUNCH=175");
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "trireme[rank 1] error: backward of "), 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("of step 2: "));
    EXPECT_THAT(outcome.output, HasSubstr("cudaErrorLaunchFailure"));
    EXPECT_THAT(outcome.output, Not(HasSubstr("trireme[rank 0] error: ")));
  }
}

}  // namespace
}  // namespace trireme::test
