// trireme run on emulated GPUs of simulated nodes, whose NVML answers from files: a GPU that fails
// costs its node, and one that is only hot costs nothing.
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/emulated_gpu.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GpuSupervisorHealth : public SupervisedRun {
 protected:
  GpuSupervisorHealth() {
    per_host_ = 1;
    variables_ =
        on_emulated_gpus() +
        "OMPI_MCA_btl=tcp,self,vader OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo "
        "TRIREME_NVML=" TRIREME_FAKE_NVML " FAKE_NVML=" +
        (folder_ / "gpus-%h");
    folder_.write("hosts", "host0\nhost1\nhost2\n");
    for (const char* host : {"host0", "host1", "host2"}) add(host, "gpus 2");
  }
  void add(const std::string& host, const std::string& line) const {
    std::ofstream(folder_ / ("gpus-" + host), std::ios::app) << line << '\n';
  }
  void start_on_nodes(const std::string& options = "--preflight off") {
    start(options + " --nodes 2 --spares 1 --hostfile " + (folder_ / "hosts") +
              " --remote-shell " TRIREME_SOURCE_DIR "/tests/support/simulated_node",
          trainer, "--device cuda");
    ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
  }
};

TEST_F(GpuSupervisorHealth, AGpuThatFailsCostsItsNodeAndOneThatIsHotDoesNot) {
  add("host0", "gpu1.temperature 88");  // slowdown at 90
  start_on_nodes();
  add("host1", "gpu0.xid 79");
  add("host1", "gpu0.xid_count 1");
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }))
      << output();
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 2U) << output();
  EXPECT_THAT(found.attempts[1].began.nodes, ElementsAre("host0", "host2"));
  EXPECT_EQ(found.attempts[0].ended->cause, supervisor::Cause::gpu_failed);
  EXPECT_THAT(found.attempts[0].ended->error,
              HasSubstr("error: node host1, GPU 0: Xid 79: the GPU has fallen off the bus"));
  const std::string nodes = shell(command + " nodes " + run_directory()).output;
  EXPECT_THAT(nodes, HasSubstr("host0: 0 points\n  attempt 1: GPU 1: temperature: "));
  EXPECT_THAT(nodes, HasSubstr("host1: 3 points, in quarantine\n  attempt 1: GPU 0: Xid 79: "));
  stop_after_progress(2);
  expect_nothing_left();
}

TEST_F(GpuSupervisorHealth, ANodeWhoseGpuAsksForARepairIsLeftForASpare) {
  add("host0", "gpu0.pending 1");
  start_on_nodes();
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }))
      << output();
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 2U) << output();
  EXPECT_EQ(found.attempts[0].ended->cause, supervisor::Cause::replacement);
  EXPECT_EQ(found.attempts[0].ended->durable, found.attempts[0].ended->last_step);
  EXPECT_THAT(found.attempts[1].began.nodes, ElementsAre("host2", "host1"));
  stop();
  expect_nothing_left();
}

TEST_F(GpuSupervisorHealth, ABadGpuKeepsItsHostOutBeforeTheFirstAttempt) {
  add("host1", "gpu0.failed 1");
  start_on_nodes("--preflight short");
  EXPECT_THAT(output(), HasSubstr("host1 does not pass the preflight: GPU 0: remap failed: "));
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 1U) << output();
  EXPECT_THAT(found.attempts[0].began.nodes, ElementsAre("host0", "host2"));
  const std::string nodes = shell(command + " nodes " + run_directory()).output;
  for (const char* host : {"host0", "host1", "host2"})
    EXPECT_THAT(nodes, HasSubstr(str("preflight of ", host, ": "))) << nodes;
  stop();
  expect_nothing_left();
}

}  // namespace
}  // namespace trireme::test
