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

#include "runtime/store/tiers/slots.h"
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
  EXPECT_EQ(found.attempts[0].ended->cause, supervisor::Cause::node_lost);
  EXPECT_THAT(shell(command + " nodes " + run_directory()).output,
              HasSubstr("host0: 2 points\n  attempt 1: the launcher lost contact with it"));
  EXPECT_EQ(shell(command + " nodes release " + run_directory() + " host0").exit_code, 0);
  // Rank 0, which held the lock of the checkpoints, was on the lost host.
  stop_after_progress(2);
  expect_nothing_left();
}

TEST_F(SupervisedNodes, AreTakenAwayByTheCommandOfTheUserWhenChaosAsksForIt) {
  const std::string shell_of_nodes = folder_.write(
      "shell", str("#!/bin/sh\nfor host; do case $host in -*) ;; *) break ;; esac; done\n"
                   "echo $$ > ",
                   folder_ / "",
                   "$host.pid\nexec " TRIREME_SOURCE_DIR "/tests/support/simulated_node \"$@\"\n"));
  fs::permissions(shell_of_nodes, fs::perms::owner_all);
  start("--allow-chaos --nodes 2 --spares 1 --hostfile " + (folder_ / "hosts") +
        " --remote-shell " + shell_of_nodes);
  ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
  const std::string chaos = command + " chaos " + run_directory() +
                            " --kinds node --every 0.1 --limit 200 --min-goodput 0 --yes "
                            "--node-cmd 'echo $TRIREME_FAULT_STATE $TRIREME_HOST >> " +
                            (folder_ / "called") +
                            "; [ $TRIREME_FAULT_STATE = end ] || kill -9 $(pgrep -P $(cat " +
                            (folder_ / "") + "$TRIREME_HOST.pid))'";
  EXPECT_THAT(shell(chaos + " --max 2").output,
              HasSubstr("--max 2: the first 2 faults may take 2 hosts out (node, link, flip, xid), "
                        "but the run has 1 spare hosts"));
  const Outcome outcome = shell(chaos + " --max 1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << output();
  EXPECT_THAT(outcome.output, testing::ContainsRegex("\nnode  *1 +1 +1 +0 "));
  const History found = history();
  ASSERT_EQ(found.faults.size(), 1U);
  const std::string host = found.faults[0].victim.substr(5);
  EXPECT_EQ(read_text(folder_ / "called"), "begin " + host + "\nend " + host + "\n");
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_THAT(causes(), ElementsAre("node_lost", "stopped"));
  expect_nothing_left();
}

TEST_F(SupervisedNodes, AreBroughtBackWhenChaosIsInterrupted) {
  start("--allow-chaos --nodes 2 --spares 1 --hostfile " + (folder_ / "hosts") +
        " --remote-shell " TRIREME_SOURCE_DIR "/tests/support/simulated_node");
  ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
  BackgroundProcess chaos("exec " + command + " chaos " + run_directory() +
                              " --kinds link --max 1 --yes --link-cmd 'echo $TRIREME_FAULT_STATE "
                              "$TRIREME_HOST >> " +
                              (folder_ / "called") + "'",
                          folder_ / "chaos");
  ASSERT_TRUE(wait_until([&] {
    return count(read_text(folder_ / "called"), "\n") == 1 || !chaos.running();
  })) << chaos.output();
  chaos.send(SIGINT);
  EXPECT_EQ(chaos.wait().exit_code, 128 + SIGINT) << chaos.output();
  EXPECT_THAT(chaos.output(), HasSubstr("trireme chaos: stopped by a signal\n"));
  const History found = history();
  ASSERT_EQ(found.faults.size(), 1U);
  const std::string host = found.faults[0].victim.substr(5);
  EXPECT_EQ(read_text(folder_ / "called"), "begin " + host + "\nend " + host + "\n");
  stop();
}

TEST_F(SupervisedNodes, ReplaceOneThatIsDownWhenTheJobStarts) {
  const std::string shell_of_nodes =
      folder_.write("shell",
                    "#!/bin/sh\nfor word; do [ \"$word\" != host1 ] || exit 255; done\n"
                    "exec " TRIREME_SOURCE_DIR "/tests/support/simulated_node \"$@\"\n");
  fs::permissions(shell_of_nodes, fs::perms::owner_all);
  start("--nodes 2 --spares 1 --preflight off --hostfile " + (folder_ / "hosts") +
        " --remote-shell " + shell_of_nodes);
  ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 2U) << output();
  EXPECT_EQ(found.attempts[0].ended->cause, supervisor::Cause::node_lost);
  EXPECT_THAT(found.attempts[0].began.nodes, ElementsAre("host0", "host1"));
  EXPECT_THAT(found.attempts[1].began.nodes, ElementsAre("host0", "host2"));
  EXPECT_THAT(shell(command + " nodes " + run_directory()).output,
              HasSubstr("host1: 2 points\n  attempt 1: it does not answer"));
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
  stop();
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

TEST_F(LastingNodes, AreRidOfWhatEarlierAttemptsHaveLeftBeforeTheNextBegins) {
  folder_.write("hosts", "host0\nhost1\n");
  start("--nodes 2 --preflight off --hostfile " + (folder_ / "hosts") + " --remote-shell " +
        shell_of_nodes);
  ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
  const std::string key = supervisor::key_of(paths(), history().run);
  const auto on_host1 = [&](const std::string& variables) {
    return str("exec nsenter --target ", first_of("host1"), " --uts --ipc --pid --mount env ",
               variables, " sleep 1000");
  };
  // mpirun, which has not started them, ends neither.
  BackgroundProcess left(on_host1("TRIREME_ATTEMPT=1 TRIREME_RUN_KEY=" + key), folder_ / "left");
  BackgroundProcess other(on_host1("TRIREME_ATTEMPT=1 TRIREME_RUN_KEY=other"), folder_ / "other");
  const fs::path memory = str("/proc/", first_of("host1"), "/root", "/dev/shm/trireme-", key);
  fs::create_directories(memory.string() + "-a0/pages");
  kill(mpirun(), SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    const History found = history();
    return !job_->running() ||
           (found.attempts.size() > 1 && durable() > found.attempts.back().began.resumed);
  })) << output();
  EXPECT_TRUE(wait_until([&] { return !left.running(); }));
  EXPECT_TRUE(other.running());
  EXPECT_THAT(read_text(paths().attempt(2) + "/output.log"),
              HasSubstr("of earlier attempts on this node, ended "));
  for (const char* attempt : {"-a0", "-a1"}) EXPECT_FALSE(fs::exists(memory.string() + attempt));
  stop();
}

TEST_F(LastingNodes, BringNothingBackThatTheRunHasAbandoned) {
  const auto on = [&](const std::string& host) {
    folder_.write("hosts", host + "\n");
    return "--nodes 1 --hostfile " + (folder_ / "hosts") + " --remote-shell " + shell_of_nodes;
  };
  const auto snapshots_on = [&](const std::string& host) {
    const std::string key = supervisor::key_of(paths(), history().run);
    return fs::exists(str("/proc/", first_of(host), "/root", store::snapshot_directory(key)));
  };
  const std::string memory = "--save-memory-interval 1 ";
  per_host_ = ranks;
  start(on("host0"), trainer, memory);
  ASSERT_TRUE(wait_until([&] { return durable() >= 15 || !job_->running(); })) << output();
  EXPECT_EQ(shell(command + " stop --now --wait 60 " + run_directory()).exit_code, 0);
  wait();  // it ended without saving
  ASSERT_TRUE(snapshots_on("host0"));
  const Index newest = durable();
  last_step_ = newest - 8;  // host0 has newer steps
  start(on("host1"), trainer, memory + str("--ckpt-step ", newest - 10));
  EXPECT_EQ(wait(), 0) << output();
  EXPECT_EQ(durable(), last_step_) << output();
  EXPECT_FALSE(snapshots_on("host1"));  // the run was done
  ASSERT_TRUE(snapshots_on("host0"));
  const Index before = last_step_;
  last_step_ = newest + 2;
  start(on("host0"), trainer, memory);
  EXPECT_EQ(wait(), 0) << output();
  EXPECT_FALSE(snapshots_on("host0"));
  const std::string log =
      read_text(paths().attempt(std::ssize(history().attempts)) + "/output.log");
  EXPECT_THAT(log, HasSubstr(str("loaded step ", before, " of ")));
  EXPECT_EQ(count(log, "from memory of the nodes"), 0) << log;
  expect_the_bits_of_an_undisturbed_run(" " + variables_,
                                        " --mca plm_rsh_agent " + shell_of_nodes + " -H host0:4");
}

}  // namespace
}  // namespace trireme::test
