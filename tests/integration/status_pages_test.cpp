// Status pages as real jobs write them: of ranks that have finished, have failed, were killed, or
// wait for one that is stopped.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/page_reader.h"
#include "runtime/observe/stack/stack_capture.h"
#include "tests/support/kill_job.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using observe::PageReader;
using observe::PageState;
using observe::Phase;
using testing::ElementsAre;
using testing::HasSubstr;

class StatusPages : public testing::Test {
 protected:
  StatusPages() {
    const Outcome made = run_shell(
        TRIREME_BIN_DIR "/trireme data prepare --input /usr/share/common-licenses/GPL-3 --output " +
            (folder_ / "corpus"),
        folder_ / "shell.log");
    require(made.exit_code == 0, made.output);
  }

  std::string pages() const { return folder_ / "pages"; }
  std::unique_ptr<KillableJob> start(const std::string& options) {
    return std::make_unique<KillableJob>(
        str("env TRIREME_PAGES=", pages(), " " TRIREME_MPIRUN " --timeout 100 -np ", ranks),
        TRIREME_BIN_DIR "/train_gpt", training(options), folder_ / "log");
  }
  std::string training(const std::string& options) const {
    return str(
        "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --pp 2 --tp 2 "
        "--global-batch-size 8 --log-interval 1 --lr-decay-iters 1000 --data-path ",
        folder_ / "corpus", " ", options);
  }
  std::string output() const {
    std::ifstream in(folder_ / "log");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  PageReader reader(int rank) const { return PageReader(observe::page_path(pages(), rank)); }
  std::vector<PageState> read() const {
    std::vector<PageState> all;
    for (const std::string& path : observe::find_pages(pages()))
      all.push_back(PageReader(path).read());
    return all;
  }
  void wait_for_step(Index step) const {
    const auto reached = [&] {
      const std::vector<PageState> all = read();
      return all.size() == ranks && all.front().step >= step;
    };
    require(wait_until(reached, 90), "no step ", step, " in 90 s:\n", output());
  }

  static constexpr int ranks = 4;
  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
};

TEST_F(StatusPages, SayOfAFinishedJobWhatItDid) {
  const std::string steps = folder_ / "steps";
  ASSERT_EQ(start("--train-iters 7 --save-interval 3 --save " + steps)->wait(), 0) << output();
  const std::vector<PageState> all = read();
  ASSERT_EQ(all.size(), ranks);
  for (const PageState& page : all) {
    EXPECT_EQ(page.ranks, ranks);
    EXPECT_EQ(page.phase, Phase::finished);
    EXPECT_EQ(page.step, 7);
    EXPECT_EQ(page.durable_step, 7);
    EXPECT_EQ(page.error, "");
    EXPECT_GT(page.loss, 0);
    ASSERT_EQ(page.steps.size(), 7U);
    EXPECT_EQ(page.steps.back().step, 7);
    EXPECT_GT(page.steps.back().compute_ns, 0);
    EXPECT_THAT(page.torn, ElementsAre());
  }
  EXPECT_EQ(all[3].coordinates, "pp1 dp0 tp1");
}

TEST_F(StatusPages, CountTheSameOperationsOnAllMembersOfAGroup) {
  ASSERT_EQ(start("--train-iters 4")->wait(), 0) << output();
  const std::vector<PageState> all = read();
  ASSERT_EQ(all.size(), ranks);
  std::map<std::string, std::set<std::uint64_t>> begun;  // by name and members
  std::set<std::string> names;
  for (const PageState& page : all) {
    std::set<std::string> of_page;
    for (const observe::GroupState& group : page.groups) {
      std::string key = group.name + (group.channel ? " channel" : "");
      for (const observe::RankRun& run : group.runs)
        key += str(' ', run.first, '+', run.count, 'x', run.stride);
      EXPECT_TRUE(of_page.insert(key).second) << key << " twice on rank " << page.rank;
      EXPECT_EQ(group.begun, group.done) << key;
      begun[key].insert(group.begun);
      names.insert(group.name);
    }
  }
  for (const auto& [key, counts] : begun) EXPECT_EQ(counts.size(), 1U) << key;
  EXPECT_TRUE(names.contains("world") && names.contains("tensor") && names.contains("pipeline"));
}

TEST_F(StatusPages, OutliveARankThatIsKilled) {
  const auto job = start("--train-iters 100000");
  wait_for_step(3);
  ASSERT_EQ(::kill(static_cast<pid_t>(reader(2).read().pid), SIGKILL), 0);
  EXPECT_NE(job->wait(), 0);
  job->wait_until_gone();
  const PageState page = reader(2).read();
  EXPECT_EQ(page.phase, Phase::step);
  EXPECT_GE(page.step, 3);
  EXPECT_EQ(observe::report_of(reader(2)).process, observe::RankReport::Process::ended);
}

/// As on a host of several, whose supervisor could open no port.
TEST_F(StatusPages, AreRemovedAndEarlierAttemptsEndedWhereTheSupervisorTakesNoPages) {
  const std::string key = str("key-of-a-test-", ::getpid()), begun = folder_ / "begun";
  const std::string attempt = folder_ / str("trireme-", key, "-a2");
  BackgroundProcess earlier(str("exec env TRIREME_RUN_KEY=", key,
                                " TRIREME_ATTEMPT=1 sh -c 'touch ", begun, "; sleep 1000; :'"),
                            folder_ / "earlier");
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(begun); }));
  const Outcome outcome = run_shell(
      str("env TRIREME_RUN_KEY=", key, " TRIREME_ATTEMPT=2 TRIREME_PAGES=", attempt,
          "/pages TRIREME_PAGES_TO= TRIREME_PAGES_AGENT=" TRIREME_BIN_DIR "/trireme " TRIREME_MPIRUN
          " --timeout 100 -np 4 " TRIREME_BIN_DIR "/train_gpt ",
          training("--train-iters 3")),
      folder_ / "shell.log");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "of earlier attempts on this node, ended "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "warning"), 0) << outcome.output;
  EXPECT_EQ(earlier.wait().exit_code, 128 + SIGKILL);
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists(attempt); }));
}

TEST_F(StatusPages, SayWhyARankHasFailed) {
  EXPECT_EQ(start("--train-iters 3 --global-batch-size 7 --micro-batch-size 2")->wait(), 64);
  for (const PageState& page : read()) {
    EXPECT_EQ(page.phase, Phase::failed);
    EXPECT_THAT(page.error, HasSubstr("this configuration cannot run"));
  }
}

TEST_F(StatusPages, ShowThatTheRanksWhichWaitForAStoppedOneLive) {
  const auto job = start("--train-iters 100000");
  wait_for_step(3);
  const auto stopped = static_cast<pid_t>(reader(1).read().pid);
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  const auto all_wait = [&] {
    const std::vector<PageState> all = read();
    return std::all_of(all.begin(), all.end(), [](const PageState& page) {
      const bool waits =
          page.waits_for == observe::WaitsFor::operations && page.age_s(page.waits_since_ns) > 1;
      return page.rank == 1 ? page.age_s(page.moved_ns) > 1 : waits;
    });
  };
  EXPECT_TRUE(wait_until(all_wait, 60)) << output();
  std::vector<observe::RankReport> reports;
  for (int rank = 0; rank < ranks; ++rank) reports.push_back(observe::report_of(reader(rank)));
  // Others than the stopped one poll every 50 us; the machine may be full.
  for (const observe::RankReport& report : reports)
    if (report.rank != 1) {
      EXPECT_LT(report.page->age_s(report.page->heartbeat_ns),
                report.page->age_s(report.page->moved_ns));
    }
  const observe::Verdict verdict = observe::judge(reports);
  EXPECT_THAT(verdict.ranks, ElementsAre(1));
  EXPECT_TRUE(verdict.certain);
  EXPECT_THAT(verdict.sentence, HasSubstr("is stopped (SIGSTOP)"));
  EXPECT_THAT(verdict.sentence, HasSubstr("3 ranks wait for it"));

  const observe::NamedStack waiting = observe::capture_stack(reader(0), 60);
  EXPECT_FALSE(waiting.frames.empty()) << waiting.why;
  ::kill(stopped, SIGCONT);
}

}  // namespace
}  // namespace trireme::test
