// trireme run with the real trainer: whatever ends a rank, mpirun or the supervisor, the run ends
// with the bits of one that nothing disturbed, and nothing is left behind.
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/records/save_interval.h"
#include "runtime/observe/page_reader.h"
#include "runtime/observe/process_state.h"
#include "tests/support/cpu_profile.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

using Supervised = SupervisedRun;

/// Kills of a random rank, each after the attempt has made a durable step, some steps later.
class Kills : public Supervised, public testing::WithParamInterface<int> {};

TEST_P(Kills, OfRandomRanksChangeNoBit) {
  start();
  Index before = 0;
  for (int kill_number = 1; kill_number <= GetParam(); ++kill_number) {
    wait_for_progress(static_cast<std::size_t>(kill_number), before);
    if (HasFatalFailure()) return;
    const Index until = step() + std::uniform_int_distribution<Index>(0, 3)(random_);
    wait_until([&] { return step() >= until || !job_->running(); });
    const std::vector<pid_t> found = rank_processes();
    ASSERT_EQ(found.size(), std::size_t{ranks}) << output();
    kill(found[random_() % ranks], SIGKILL);
    ASSERT_TRUE(wait_until([&] {
      return history().attempts.size() > static_cast<std::size_t>(kill_number) || !job_->running();
    }));
    before = durable();
  }
  finish();
  std::vector<std::string> expected(static_cast<std::size_t>(GetParam()), "killed");
  expected.insert(expected.end(), {"stopped", "finished"});
  EXPECT_EQ(causes(), expected);
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

INSTANTIATE_TEST_SUITE_P(Few, Kills, testing::Values(2));
INSTANTIATE_TEST_SUITE_P(Many, Kills, testing::Values(10));

TEST_F(Supervised, StopsWithTheLastStepSavedAndContinues) {
  for (const char* request : {"TERM", "USR1", "file"}) {
    start();
    wait_for_progress(history().attempts.size() + 1, durable());
    if (HasFatalFailure()) return;
    if (std::string(request) == "file") {
      const Outcome asked = shell(command + " stop --wait " + run_directory());
      EXPECT_EQ(asked.exit_code, 0) << asked.output;
      EXPECT_THAT(asked.output, HasSubstr("ended with 75: stopped and saved"));
    } else {
      job_->send(std::string(request) == "TERM" ? SIGTERM : SIGUSR1);
    }
    EXPECT_EQ(wait(), 75) << request << output();
    EXPECT_EQ(durable(), step()) << request;
    EXPECT_EQ(count(output(), "Primary job"), 0) << "a box of mpirun";
    expect_nothing_left();
  }
  EXPECT_THAT(causes(), ElementsAre("stopped", "stopped", "stopped"));
  last_step_ = step() + 3;
  start();
  EXPECT_EQ(wait(), 0) << output();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Supervised, KeepsTheLayoutThatTheJobChose) {
  layout_ =
      "--global-batch-size 8 --plan auto --plan-profile " + write_cpu_profile(folder_ / "cpu.json");
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  kill(rank_processes().front(), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }));
  wait_for_progress(2, durable());
  if (HasFatalFailure()) return;
  stop();
  const auto mesh = [&](Index attempt) {
    const std::string log = read_text(paths().attempt(attempt) + "/output.log");
    const std::size_t begin = log.find("] pipeline ");
    return begin == std::string::npos ? log : log.substr(begin, log.find('\n', begin) - begin);
  };
  EXPECT_THAT(mesh(1), EndsWith(" = 4 ranks"));
  EXPECT_EQ(mesh(2), mesh(1));
  EXPECT_THAT(read_text(paths().attempt(2) + "/output.log"),
              ContainsRegex("plan: the layout of step [0-9]+ of .* is kept"));
}

TEST_F(Supervised, SurvivesTheDeathOfItsSupervisor) {
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  job_->send(SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  start();  // at once, while ranks of the first may still be there, and make steps
  ASSERT_TRUE(wait_until([&] { return history().attempts.size() > 1 || !job_->running(); }));
  wait_for_progress(2, durable());
  if (HasFatalFailure()) return;
  finish();
  EXPECT_THAT(causes(), ElementsAre("supervisor_lost", "stopped", "finished"));
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Supervised, LeavesNoJobBehindWhenItIsKilled) {
  // It prints nothing: a write to the supervisor that is gone would end it as well.
  const std::string silent =
      folder_.write("silent", "#!/bin/sh\nexec " + trainer + " \"$@\" > /dev/null 2>&1\n");
  fs::permissions(silent, fs::perms::owner_all);
  start("", silent);
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  job_->send(SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  EXPECT_TRUE(wait_until([&] { return processes_with(run_directory()) == 0; }));
  supervisor::remove_private_directories(supervisor::key_of(paths(), history().run));
}

/// With --save-interval auto.
class AutoSaves : public Supervised {
 protected:
  AutoSaves() { saves_ = "--save-interval auto --save-interval-seconds 0.2"; }
  void expect_that_the_attempt_saves_as_the_ledger_says() const;
};

/// By time before two failures, then every so many steps.
void AutoSaves::expect_that_the_attempt_saves_as_the_ledger_says() const {
  const History found = history();
  const auto& saves = found.attempts.back().began.saves;
  ASSERT_TRUE(saves);
  EXPECT_EQ(saves->steps > 0, found.attempts.size() > 2) << output();
  EXPECT_THAT(output(), HasSubstr("saves " + supervisor::to_text(*saves)));
  const std::string words = read_text(str("/proc/", mpirun(), "/cmdline")),
                    given = saves->steps > 0 ? std::to_string(saves->steps) : "auto";
  EXPECT_THAT(words, HasSubstr(std::string("--save-interval\0", 16) + given + '\0'));
}

TEST_F(AutoSaves, RestartAfterEveryWayInWhichAJobCanEnd) {
  struct Way {
    int signal;
    bool to_mpirun;
    const char* cause;
  };
  const std::vector<Way> ways = {
      {SIGSEGV, false, "crashed"}, {SIGABRT, false, "crashed"}, {SIGKILL, true, "launcher_killed"}};
  start();
  std::vector<std::string> expected;
  for (const Way& way : ways) {
    const int needed = expected.empty() ? 3 : 1;  // of one attempt, to measure what a save costs
    for (int saves = 0; saves < needed && !HasFatalFailure(); ++saves)
      wait_for_progress(expected.size() + 1, durable());
    if (HasFatalFailure()) return;
    expect_that_the_attempt_saves_as_the_ledger_says();
    expected.emplace_back(way.cause);
    kill(way.to_mpirun ? mpirun() : rank_processes().front(), way.signal);
    ASSERT_TRUE(wait_until(
        [&] { return history().attempts.size() > expected.size() || !job_->running(); }));
  }
  finish();
  expected.insert(expected.end(), {"stopped", "finished"});
  EXPECT_EQ(causes(), expected);
  const auto attempts = history().attempts;
  EXPECT_THAT(attempts[0].ended->error, HasSubstr("signal 11 (SIGSEGV) ended rank "));
  EXPECT_THAT(attempts[0].ended->error, ContainsRegex("\\(.+, pp. dp. tp.\\), .*step [0-9]+"));
  EXPECT_THAT(attempts[2].ended->error, HasSubstr("mpirun itself got SIGKILL: lack of memory"));
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

/// Waits until a rank of the attempt has begun to load, and stops it. Its process; 0: it had
/// loaded.
pid_t stop_a_loading_rank(const std::function<std::string()>& pages) {
  std::string found;
  const auto phase = [](const std::string& path) { return observe::PageReader(path).read().phase; };
  const auto look = [&] {
    for (const std::string& path : observe::find_pages(pages())) try {
        if (phase(path) >= observe::Phase::load) found = path;
      } catch (const Error&) {  // it is being made
      }
    return !found.empty();
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (!look() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (found.empty()) return 0;
  const auto rank = static_cast<pid_t>(observe::PageReader(found).read().pid);
  kill(rank, SIGSTOP);
  for (auto state = observe::read_process_state(rank); state && state->state != 'T';
       state = observe::read_process_state(rank))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (phase(found) == observe::Phase::load) return rank;
  kill(rank, SIGCONT);
  return 0;
}

TEST_F(Supervised, RestartsAfterAKillOfARankThatLoads) {
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const std::string key = supervisor::key_of(paths(), history().run);
  pid_t victim = 0;
  std::size_t killed = 0;
  while (victim == 0 && killed < 10) {  // on a busy machine it may have loaded when it is seen
    if (killed > 0) wait_for_progress(killed + 1, durable());
    if (HasFatalFailure()) return;
    kill(rank_processes().front(), SIGKILL);
    ++killed;
    victim = stop_a_loading_rank([&] {
      return supervisor::find_private_directories(paths(), key, static_cast<Index>(killed) + 1)
          .pages();
    });
  }
  ASSERT_NE(victim, 0) << output();
  kill(victim, SIGKILL);
  wait_for_progress(killed + 2, durable());
  if (HasFatalFailure()) return;
  finish();
  std::vector<std::string> expected(killed + 1, "killed");
  expected.insert(expected.end(), {"stopped", "finished"});
  EXPECT_EQ(causes(), expected);
  EXPECT_EQ(history().attempts[killed].ended->first_step, 0);
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Supervised, RestartsAfterTwoKillsAtOnce) {
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const std::vector<pid_t> found = rank_processes();
  kill(found[0], SIGKILL);
  kill(found[3], SIGKILL);
  wait_for_progress(2, durable());
  if (HasFatalFailure()) return;
  const pid_t rank = rank_processes().front();
  kill(mpirun(), SIGKILL);
  kill(rank, SIGKILL);
  wait_for_progress(3, durable());
  if (HasFatalFailure()) return;
  finish();
  EXPECT_THAT(causes(), ElementsAre("killed", "launcher_killed", "stopped", "finished"));
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

/// A program whose rank 2 ends with a code of its own in the first attempts.
TEST_F(Supervised, RestartsAfterRanksThatExit) {
  const std::string wrapper =
      folder_.write("wrapper",
                    "#!/bin/sh\n"
                    "[ \"$OMPI_COMM_WORLD_RANK\" = 2 ] && [ \"$TRIREME_ATTEMPT\" -le 2 ] || exec " +
                        trainer + " \"$@\"\n" + trainer +
                        " \"$@\" & p=$!\n"
                        "until [ -e " +
                        (folder_ / "go") +
                        "$TRIREME_ATTEMPT ]; do sleep 0.05; done\n"
                        "kill -9 $p\n"
                        "[ \"$TRIREME_ATTEMPT\" = 1 ] && exit 7\n"
                        "exit 0\n");
  fs::permissions(wrapper, fs::perms::owner_all);
  start("", wrapper);
  for (const char* attempt : {"1", "2"}) {
    const Index before = durable();
    ASSERT_TRUE(wait_until([&] {
      return history().attempts.size() >= std::stoul(attempt) && durable() > before;
    })) << output();
    folder_.write(str("go", attempt), "");
    ASSERT_TRUE(wait_until([&] { return history().attempts.size() > std::stoul(attempt); }))
        << output();
  }
  finish(wrapper);
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 4U) << output();
  EXPECT_EQ(found.attempts[0].ended->code, 7);
  EXPECT_EQ(found.attempts[0].ended->cause, supervisor::Cause::failed);
  EXPECT_NE(found.attempts[1].ended->cause, supervisor::Cause::finished);
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Supervised, EndsAtOnceWhenAskedToStopNow) {
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  kill(rank_processes().front(), SIGSTOP);  // it could not save
  EXPECT_EQ(shell(command + " stop --now " + run_directory()).exit_code, 0);
  EXPECT_EQ(wait(), 75) << output();
  expect_nothing_left();
}

}  // namespace
}  // namespace trireme::test
