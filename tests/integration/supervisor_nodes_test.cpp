// trireme run over simulated nodes, one of which is lost: a spare takes its place.
#include <algorithm>
#include <cmath>
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
  void expect_the_losses_of_an_undisturbed_run();
  void lose(const std::string& host) const {
    for (const pid_t node : children(mpirun(), "unshare"))
      if (read_text(str("/proc/", node, "/cmdline")).find(host) != std::string::npos)
        for (const pid_t first : children(node, ""))
          kill(first, SIGKILL);  // takes the others of its namespace along
  }
};

/// Rows of the metrics: as many as steps, in order, with the losses that four ranks have.
void SupervisedNodes::expect_the_losses_of_an_undisturbed_run() {
  const std::string reference = folder_ / "reference", line = TRIREME_MPIRUN;
  const Outcome outcome =
      shell(line.substr(line.rfind(' ')) + str(" --timeout 120 -np ", ranks, " ") + trainer +
            training(reference, ""));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto found = rows_without_times(run_directory() + "/metrics.jsonl");
  const auto expected = rows_without_times(reference + "/metrics.jsonl");
  ASSERT_EQ(found.size(), expected.size());
  double most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].at("step"), i + 1);
    const double loss = found[i].at("loss"), other = expected[i].at("loss");
    most = std::max(most, std::abs(loss - other) / other);
    EXPECT_EQ(found[i].at("lr"), expected[i].at("lr"));
  }
  EXPECT_LE(most, 2e-7) << found.size() << " steps";
}

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

TEST_F(SupervisedNodes, ContinueOnFewerAndAgainOnAllWithEachStepOnce) {
  folder_.write("hosts", "host0\nhost1\n");
  start("--nodes 2 --min-nodes 1 --grow --grow-interval 0.2 --hostfile " + (folder_ / "hosts") +
        " --remote-shell " TRIREME_SOURCE_DIR "/tests/support/simulated_node");
  ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
  folder_.write("hosts", "host0\n");  // read again before each attempt
  lose("host1");
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }))
      << output();
  const Index before = durable();
  ASSERT_TRUE(wait_until([&] { return durable() > before || !job_->running(); })) << output();
  EXPECT_THAT(shell(command + " status " + run_directory()).output,
              HasSubstr("attempt 2: 2 ranks (pp1 dp1 tp2, fewer hosts than --nodes)"));
  folder_.write("hosts", "host0\nhost1\n");
  ASSERT_TRUE(wait_until([&] {
    return (history().attempts.size() > 2 && durable() > history().attempts[2].began.resumed) ||
           !job_->running();
  })) << output();
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  std::vector<Index> sizes;
  for (const supervisor::Attempt& attempt : history().attempts)
    sizes.push_back(attempt.began.ranks);
  EXPECT_THAT(sizes, ElementsAre(4, 2, 4)) << output();
  EXPECT_THAT(causes(), ElementsAre("node_lost", "growth", "stopped"));
  EXPECT_THAT(output(), HasSubstr("results agree within the layout tolerance, not in bits"));
  EXPECT_THAT(shell(command + " report " + run_directory()).output,
              HasSubstr("layout pp1 dp1 tp2"));
  last_step_ = step();
  expect_nothing_left();
  expect_the_losses_of_an_undisturbed_run();
}

}  // namespace
}  // namespace trireme::test
