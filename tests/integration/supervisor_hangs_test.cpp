// What `trireme run` does with real jobs that are stuck: it names the rank and the operation from
// the status pages, keeps stacks, and ends no job that only is slow. Times are printed, not judged.
#include <chrono>
#include <cstdio>
#include <thread>

#include <gmock/gmock.h>

#include "runtime/observe/page_reader.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Hangs : public SupervisedRun {
 protected:
  nlohmann::json verdict(Index attempt) const {
    return nlohmann::json::parse(read_text(paths().attempt(attempt) + "/verdict.json"));
  }
  std::string pages() const {
    return supervisor::find_private_directories(paths(), supervisor::key_of(paths(), history().run),
                                                history().attempts.back().began.attempt)
        .pages();
  }
  observe::PageState page_of(int rank) const {
    return observe::PageReader(observe::page_path(pages(), rank)).read();
  }
  pid_t process_of(int rank) const { return static_cast<pid_t>(page_of(rank).pid); }
  /// Until all are in a step, whose limit is short: that of a save is ten minutes.
  void stop_in_a_step(const std::vector<int>& which) {
    const auto send = [&](int signal) {
      for (const int rank : which) kill(process_of(rank), signal);
    };
    const auto stopped = [&] {
      send(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // others come to wait for them
      bool in_steps = true;
      for (int rank = 0; rank < ranks; ++rank)
        in_steps = in_steps && page_of(rank).phase == observe::Phase::step;
      if (!in_steps) send(SIGCONT);
      return in_steps;
    };
    ASSERT_TRUE(wait_until(stopped)) << output();
  }
  /// `trireme run` with a program of one mistake, which it starts once; returns when it has ended.
  std::string run_mistake(const std::string& name) {
    const Outcome outcome = shell(str(
        command, " run -n 2 --hang-timeout 3 --max-restarts 0 --run-dir ", run_directory(), " -- ",
        TRIREME_BIN_DIR, "/hostile_mistakes --tp 2 --train-iters 1000000 --mistake ", name));
    EXPECT_EQ(outcome.exit_code, 70) << outcome.output;
    return outcome.output;
  }
};

TEST_F(Hangs, OfAStoppedRankNameIt) {
  start("--hang-timeout 3");
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const auto began = std::chrono::steady_clock::now();
  stop_in_a_step({2});
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1; })) << output();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("from SIGSTOP to the next attempt: %.2f s, limit 3 s\n", took.count());
  const std::string sentence = history().attempts[0].ended->error;
  EXPECT_THAT(sentence, HasSubstr("hang: rank 2 ("));
  EXPECT_THAT(sentence, HasSubstr("pp0 dp1 tp0) is stopped (SIGSTOP), step "));
  EXPECT_THAT(sentence, HasSubstr("3 ranks wait for it, first in "));
  EXPECT_THAT(output(), HasSubstr("trireme run: " + sentence));
  const nlohmann::json found = verdict(1);
  EXPECT_EQ(found["sentence"], sentence);
  EXPECT_EQ(found["ranks"], nlohmann::json({2}));
  EXPECT_EQ(found["certain"], true);
  ASSERT_EQ(found["stacks"].size(), 2U);  // of the culprit, and of one that waits
  EXPECT_THAT(std::string(found["stacks"][0]["why"]),
              HasSubstr("does not answer SIGUSR2: state T"));
  EXPECT_FALSE(found["stacks"][1]["frames"].empty());
  finish();
  EXPECT_EQ(causes().front(), "hang");
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Hangs, InAnOpNameTheRankAndTheOp) {
  const std::string output = run_mistake("op-loops");
  EXPECT_THAT(output, HasSubstr("hang: rank 1 ("));
  EXPECT_THAT(output, HasSubstr("double forward\" of micro-batch "));
  EXPECT_THAT(output, HasSubstr("; rank 0 waits for it, first in "));
  const nlohmann::json found = verdict(1);
  EXPECT_EQ(found["ranks"], nlohmann::json({1}));
  EXPECT_EQ(found["kind"], "rank");
  EXPECT_THAT(found["stacks"][0]["frames"].dump(), HasSubstr("(hostile_mistakes)"));
  EXPECT_THAT(causes(), ElementsAre("hang"));
}

TEST_F(Hangs, AfterASkippedCollectiveNameTheOperationAndBlameTheProgram) {
  const std::string output = run_mistake("skips-a-collective");
  EXPECT_THAT(output, HasSubstr("program error: ranks 0 and 1 wait for each other in a circle"));
  EXPECT_THAT(output, HasSubstr("of tensor group 0"));
  EXPECT_EQ(verdict(1)["kind"], "program error");
  EXPECT_THAT(causes(), ElementsAre("hang"));
}

TEST_F(Hangs, AreNotSeenInAStoppedJobWhichContinues) {
  start("--hang-timeout 3");
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  std::vector<pid_t> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(process_of(rank));
  stop_in_a_step({0, 1, 2, 3});
  EXPECT_TRUE(wait_until([&] { return count(output(), "all ranks are stopped") >= 1; }))
      << output();
  const Index before = durable();
  for (const pid_t process : all) kill(process, SIGCONT);
  wait_for_progress(1, before);
  finish();
  EXPECT_EQ(causes().front(), "stopped");
}

TEST_F(Hangs, AreNotSeenOnAFullMachine) {
  constexpr double least_s = 20;
  per_host_ = 8;
  start("--hang-timeout 3");
  BackgroundProcess hog("exec sh -c 'while :; do :; done'", folder_ / "hog");
  BackgroundProcess other("exec sh -c 'while :; do :; done'", folder_ / "other");
  const auto began = std::chrono::steady_clock::now();
  const auto passed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  wait_until([&] { return !job_->running() || (passed_s() > least_s && step() > 10); }, 300);
  std::printf("%.1f s, %ld steps\n", passed_s(), static_cast<long>(step()));
  stop();
  EXPECT_EQ(count(output(), "hang"), 0) << output();
  EXPECT_THAT(causes(), ElementsAre("stopped"));
}

}  // namespace
}  // namespace trireme::test
