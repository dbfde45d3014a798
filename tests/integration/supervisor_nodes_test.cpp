// trireme run over simulated nodes, one of which is lost: a spare takes its place.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <memory>
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

/// Nodes that outlive jobs, and so do files in their memory.
class LastingNodes : public SupervisedNodes {
 protected:
  LastingNodes() {
    variables_ += " LASTING_NODES=" + (folder_ / "nodes");
    fs::create_directory(folder_ / "nodes");
    for (const char* host : {"host0", "host1", "host2"}) {
      nodes_[host] = std::make_unique<BackgroundProcess>(
          str("exec unshare --uts --ipc --pid --mount --fork --kill-child --mount-proc sh -c "
              "'hostname ",
              host, "; mount -t tmpfs -o size=50% tmpfs /dev/shm; exec sleep 1000'"),
          folder_ / (std::string(host) + ".log"));
      EXPECT_TRUE(wait_until([&] { return first_of(host) != 0; }));
      folder_.write(str("nodes/", host), std::to_string(first_of(host)));
    }
  }
  /// Its first process, once it has memory of its own.
  pid_t first_of(const std::string& host) const {
    const std::vector<pid_t> found = children(nodes_.at(host)->id(), "sleep");
    return found.empty() ? 0 : found.front();
  }
  std::map<std::string, std::unique_ptr<BackgroundProcess>> nodes_;
  const std::string shell_of_nodes = TRIREME_SOURCE_DIR "/tests/support/lasting_node";
};

TEST_F(LastingNodes, LoseNoStepThatIsInMemoryOfAnotherNode) {
  save_interval_ = 100000;
  const std::string hosts = "--nodes 2 --spares 1 --hostfile " + (folder_ / "hosts") +
                            " --remote-shell " + shell_of_nodes;
  start(hosts, trainer, "--save-memory-interval 2 --save-memory-partner");
  ASSERT_TRUE(wait_until([&] { return step() >= 12 || !job_->running(); })) << output();
  kill(first_of("host1"), SIGKILL);  // takes all of its node along
  const std::string log = paths().attempt(2) + "/output.log";
  const auto loaded = [&] {
    return fs::exists(log) && count(read_text(log), "from memory of the nodes") > 0;
  };
  ASSERT_TRUE(wait_until([&] { return loaded() || !job_->running(); })) << output();
  EXPECT_EQ(durable(), 0);
  EXPECT_THAT(read_text(log), HasSubstr("2 of 4 ranks got their snapshot from another node"));
  const Index before = step();
  ASSERT_TRUE(wait_until([&] { return step() > before + 4 || !job_->running(); })) << output();
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output() << read_text(log);
  last_step_ = durable() + 3;
  start(hosts);
  EXPECT_EQ(wait(), 0) << output();
  expect_the_bits_of_an_undisturbed_run(" " + variables_,
                                        " --mca plm_rsh_agent " + shell_of_nodes +
                                            " -H host0:2,host2:2");  // norms are summed by node
}

}  // namespace
}  // namespace trireme::test
