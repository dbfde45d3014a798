// trireme run over simulated nodes, one of which is lost: a spare takes its place.
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SupervisedNodes : public SupervisedRun {
 protected:
  SupervisedNodes() {
    per_host_ = 2;
    variables_ =
        "OMPI_MCA_btl=tcp,self,vader OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo";
    folder_.write("hosts", "host0\nhost1\nhost2\n");
  }
  void lose(const std::string& host) const {
    for (const pid_t node : children(mpirun(), "unshare"))
      if (read_text(str("/proc/", node, "/cmdline")).find(host) != std::string::npos)
        for (const pid_t first : children(node, ""))
          kill(first, SIGKILL);  // takes the others of its namespace along
  }
};

TEST_F(SupervisedNodes, ReplaceALostOneByASpareInItsPlace) {
  start("--nodes 2 --spares 1 --hostfile " + (folder_ / "hosts") +
        " --remote-shell " TRIREME_SOURCE_DIR "/tests/support/simulated_node");
  ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
  lose("host0");
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }))
      << output();
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 2U) << output();
  EXPECT_THAT(found.attempts[0].began.nodes, ElementsAre("host0", "host1"));
  EXPECT_THAT(found.attempts[1].began.nodes, ElementsAre("host2", "host1"));
  EXPECT_EQ(found.attempts[0].ended->cause, "node_lost");
  EXPECT_THAT(shell(command + " nodes " + run_directory()).output,
              HasSubstr("host0: 2 points\n  attempt 1: the launcher lost contact with it"));
  EXPECT_EQ(shell(command + " nodes release " + run_directory() + " host0").exit_code, 0);
  // Rank 0, which held the lock of the checkpoints, was on the lost host.
  const Index before = durable();
  ASSERT_TRUE(wait_until([&] { return durable() > before || !job_->running(); })) << output();
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_EQ(history().attempts.size(), 2U) << output();
  expect_nothing_left();
}

}  // namespace
}  // namespace trireme::test
