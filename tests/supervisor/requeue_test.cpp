// Which exit codes Slurm takes for a wish to be queued again.
#include <gtest/gtest.h>

#include "launch/supervisor/machine/scheduler.h"

namespace trireme::supervisor::test {
namespace {

TEST(Requeue, IsSlurmsWhereItsConfigurationHasTheCode) {
  const auto requeues = [](const char* codes) {
    return slurm_requeues(std::string("Configuration data as of today\nPrologFlags     = (null)\n"
                                      "RequeueExit             = ") +
                              codes + "\nRequeueExitHold         = 75\n",
                          75);
  };
  EXPECT_TRUE(requeues("75"));
  EXPECT_TRUE(requeues("1,75,130"));
  EXPECT_TRUE(requeues("70-80"));
  EXPECT_FALSE(requeues("(null)"));
  EXPECT_FALSE(requeues("7,750,76-80"));
  EXPECT_FALSE(slurm_requeues("", 75));
  EXPECT_FALSE(slurm_requeues("RequeueExit", 75));
}

}  // namespace
}  // namespace trireme::supervisor::test
