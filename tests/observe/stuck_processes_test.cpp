// Processes with real pages: the verdict about ranks that compute without end, are stopped, or were
// killed while the others wait for them.
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/page_reader.h"
#include "runtime/observe/status_page.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int ranks = 4, culprit = 2;

/// Four processes in step 12: all but the culprit wait in a barrier of the world, and poll.
class StuckJob {
 public:
  explicit StuckJob(bool culprit_computes) {
    for (int rank = 0; rank < ranks; ++rank) {
      pids_[static_cast<std::size_t>(rank)] = ::fork();
      if (pids_[static_cast<std::size_t>(rank)] == 0) run(rank, culprit_computes);
    }
    for (int rank = 0; rank < ranks; ++rank)
      while (!is_stuck(rank, culprit_computes))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~StuckJob() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  StuckJob(const StuckJob&) = delete;
  StuckJob& operator=(const StuckJob&) = delete;

  /// To the culprit; returns once it has taken effect.
  void send(int signal) const {
    require(::kill(pids_[culprit], signal) == 0, "kill");
    siginfo_t info;
    require(::waitid(P_PID, static_cast<id_t>(pids_[culprit]), &info,
                     WEXITED | WSTOPPED | WNOWAIT) == 0,
            "waitid");
  }

  /// Taken when the culprit has been silent for long enough and all others have polled since, which
  /// on a full machine they may do late.
  Verdict judge() const {
    constexpr double frozen_s = 0.5;
    for (;;) {
      std::vector<RankReport> reports;
      bool ready = true;
      for (int rank = 0; rank < ranks; ++rank) {
        reports.push_back(report_of(reader(rank)));
        const PageState& page = *reports.back().page;
        const bool polls = page.age_s(page.heartbeat_ns) < frozen_s;
        const bool moved = page.age_s(page.moved_ns) < frozen_s;
        ready = ready && (rank == culprit ? !polls && !moved : polls);
      }
      if (ready) return observe::judge(reports, {.frozen_s = frozen_s});
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

 private:
  PageReader reader(int rank) const { return PageReader(page_path(folder_.path(), rank)); }

  bool is_stuck(int rank, bool culprit_computes) const {
    if (!std::filesystem::exists(page_path(folder_.path(), rank))) return false;
    const PageState state = reader(rank).read();
    return rank == culprit && culprit_computes ? state.op == "attention"
                                               : state.waits_for == WaitsFor::operations;
  }

  [[noreturn]] void run(int rank, bool culprit_computes) const {
    StatusPage page(folder_.path(), rank, ranks);
    const GroupId world = page.add_group("world", std::array{0, 1, 2, 3});
    page.enter(Phase::step);
    page.begin_step(12);
    page.begin_micro_batch(3, page.add_name("backward"));
    if (rank == culprit && culprit_computes) {
      page.begin_op(5, page.add_name("attention"));
      for (volatile int turns = 0;;) turns = 1 - turns;
    }
    page.wait_for(std::array{page.begin(world, {OperationKind::barrier})});
    for (;;) {
      page.heartbeat();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  std::array<pid_t, ranks> pids_{};
};

TEST(StuckProcesses, AreNamedWhileTheyCompute) {
  const Verdict verdict = StuckJob(true).judge();
  EXPECT_EQ(verdict.kind, Verdict::Kind::rank);
  EXPECT_THAT(verdict.ranks, ElementsAre(culprit));
  EXPECT_THAT(verdict.sentence,
              AllOf(HasSubstr("has computed \"attention backward\" of micro-batch 3 for "),
                    HasSubstr(", step 12; 3 ranks wait for it, first in barrier #1 of the world")));
}

TEST(StuckProcesses, AreNamedWhenTheyAreStopped) {
  const StuckJob job(false);
  job.send(SIGSTOP);
  const Verdict verdict = job.judge();
  EXPECT_THAT(verdict.ranks, ElementsAre(culprit));
  EXPECT_THAT(verdict.sentence, HasSubstr("is stopped (SIGSTOP), step 12; 3 ranks wait for it"));
}

TEST(StuckProcesses, AreNamedWhenTheyWereKilled) {
  const StuckJob job(false);
  job.send(SIGKILL);
  const Verdict verdict = job.judge();
  EXPECT_THAT(verdict.ranks, ElementsAre(culprit));
  EXPECT_THAT(verdict.sentence, HasSubstr("has ended, step 12; 3 ranks wait for it"));
}

}  // namespace
}  // namespace trireme::observe
