// What `trireme run` does when a rank or a node of several simulated ones is stuck: agents report
// the status pages of each node. Times are not judged.
#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "runtime/observe/page_reader.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NodeHangs : public SupervisedRun {
 protected:
  NodeHangs() {
    per_host_ = 2;
    save_interval_ = 50;
    variables_ =
        "OMPI_MCA_btl=tcp,self,vader OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo";
    folder_.write("hosts", "host0\nhost1\nhost2\n");
  }
  void start_on_nodes() {
    start("--nodes 2 --spares 1 --hang-timeout 6 --hostfile " + (folder_ / "hosts") +
          " --remote-shell " TRIREME_SOURCE_DIR "/tests/support/simulated_node");
    ASSERT_TRUE(wait_until([&] { return durable() > 0 || !job_->running(); })) << output();
    ASSERT_TRUE(job_->running()) << output();
    const std::string copies =
        supervisor::find_private_directories(paths(), supervisor::key_of(paths(), history().run), 1)
            .copies();
    ASSERT_TRUE(wait_until([&] { return observe::find_pages(copies).size() == ranks; }));
  }
  /// Descendants of the supervisor that are in the namespace of the processes of a node.
  std::vector<pid_t> processes_of_node_of(int rank) const {
    const fs::path space = fs::read_symlink(str("/proc/", process_of(rank), "/ns/pid"));
    std::vector<pid_t> found;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      std::error_code gone;
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") == std::string::npos &&
          fs::read_symlink(entry.path() / "ns/pid", gone) == space)
        found.push_back(std::stoi(name));
    }
    return found;
  }
  /// Its number outside of its namespace; 0: there is none.
  pid_t process_of(int rank) const {
    const std::string own = str("OMPI_COMM_WORLD_RANK=", rank), folder = folder_ / "run";
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string words = read_text(str("/proc/", name, "/cmdline"));
      if (words.find(folder) == std::string::npos ||
          words.find("train_gpt") != words.rfind("train_gpt", words.find('\0')))
        continue;
      const std::string variables = '\0' + read_text(str("/proc/", name, "/environ"));
      if (variables.find('\0' + own + '\0') != std::string::npos) return std::stoi(name);
    }
    return 0;
  }
  /// As it is on its node: the copy of the supervisor is older.
  observe::PageState page_of(int rank) const {
    const std::string key = supervisor::key_of(paths(), history().run);
    return observe::PageReader(
               str("/proc/", process_of(rank), "/root",
                   observe::page_path(supervisor::find_private_directories(paths(), key, 1).pages(),
                                      rank)))
        .read();
  }
  /// In a step, whose limit is short.
  void stop_in_a_step(const std::vector<pid_t>& which) {
    const auto stopped = [&] {
      for (const pid_t process : which) kill(process, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // others wait for them
      bool in_steps = true;
      for (int rank = 0; rank < ranks; ++rank)
        in_steps = in_steps && page_of(rank).phase == observe::Phase::step;
      if (!in_steps)
        for (const pid_t process : which) kill(process, SIGCONT);
      return in_steps;
    };
    ASSERT_TRUE(wait_until(stopped)) << output();
  }
  nlohmann::json wait_for_verdict() {
    EXPECT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }))
        << output();
    return nlohmann::json::parse(read_text(paths().attempt(1) + "/verdict.json"));
  }
  void stop_and_expect_nothing_left() {
    const Index before = durable();
    ASSERT_TRUE(wait_until([&] { return durable() > before || !job_->running(); })) << output();
    job_->send(SIGTERM);
    EXPECT_EQ(wait(), 75) << output();
    EXPECT_EQ(causes().front(), "hang");
    expect_nothing_left();
  }
};

TEST_F(NodeHangs, OfARankOfAnotherNodeNameIt) {
  start_on_nodes();
  if (HasFatalFailure()) return;
  std::string status;
  const auto names_the_ranks = [&] {
    status = shell(command + " status " + run_directory()).output;
    return status.find("rank 0 (pp0 dp0 tp0): ") != std::string::npos &&
           status.find("rank 3 (pp0 dp1 tp1): ") != std::string::npos;
  };
  ASSERT_TRUE(wait_until(names_the_ranks)) << status << output();
  stop_in_a_step({process_of(3)});
  if (HasFatalFailure()) return;
  const nlohmann::json found = wait_for_verdict();
  EXPECT_THAT(std::string(found["sentence"]),
              HasSubstr("hang: rank 3 (host1, pp0 dp1 tp1) is stopped (SIGSTOP), step "));
  EXPECT_EQ(found["ranks"], nlohmann::json({3}));
  EXPECT_EQ(found["hosts"], nlohmann::json({"host1"}));
  ASSERT_EQ(found["stacks"].size(), 2U);
  EXPECT_THAT(std::string(found["stacks"][0]["why"]), HasSubstr("state T"));
  EXPECT_FALSE(found["stacks"][1]["frames"].empty()) << found["stacks"];
  stop_and_expect_nothing_left();
}

TEST_F(NodeHangs, OfTheFirstRankOfAnotherNodeNameItAlso) {
  start_on_nodes();
  if (HasFatalFailure()) return;
  stop_in_a_step({process_of(2)});  // started the agent of its node
  if (HasFatalFailure()) return;
  const nlohmann::json found = wait_for_verdict();
  EXPECT_THAT(std::string(found["sentence"]), HasSubstr("hang: rank 2 (host1, "));
  EXPECT_EQ(found["ranks"], nlohmann::json({2}));
  stop_and_expect_nothing_left();
}

TEST_F(NodeHangs, OfAWholeNodeNameTheNode) {
  start_on_nodes();
  if (HasFatalFailure()) return;
  for (const pid_t process : processes_of_node_of(2)) kill(process, SIGSTOP);
  const nlohmann::json found = wait_for_verdict();
  EXPECT_EQ(found["sentence"], "hang: host1 (ranks 2 and 3) does not answer");
  EXPECT_EQ(found["kind"], "silent node");
  ASSERT_EQ(history().attempts.size(), 2U) << output();
  EXPECT_THAT(history().attempts[1].began.nodes, ElementsAre("host0", "host2"));
  stop_and_expect_nothing_left();
}

TEST_F(NodeHangs, AreNotSeenInAHealthyRun) {
  start_on_nodes();
  if (HasFatalFailure()) return;
  const Index before = step();
  ASSERT_TRUE(wait_until([&] { return step() > before + 300 || !job_->running(); })) << output();
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_EQ(count(output(), "hang"), 0) << output();
  EXPECT_EQ(count(output(), "warning"), 0) << output();
  EXPECT_THAT(causes(), ElementsAre("stopped"));
  expect_nothing_left();
}

}  // namespace
}  // namespace trireme::test
