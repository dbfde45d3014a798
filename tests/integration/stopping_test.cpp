// A job that is stopped by a signal, or killed, and resumed: exit codes, the last checkpoint, and
// metrics that have each step once.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "tests/support/kill_job.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

pid_t mpirun_of(const KillableJob& job) { return job.named("mpirun").at(0); }

std::vector<pid_t> ranks_of(const KillableJob& job) { return job.named("train_gpt"); }

/// What /proc/ID/status says behind "name:"; proc(5).
std::string status_line(pid_t process, const std::string& name) {
  std::istringstream lines(read_text(str("/proc/", process, "/status")));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  return "";
}

class Stopping : public testing::Test {
 protected:
  Stopping() {
    const int status = std::system(
        (TRIREME_BIN_DIR "/trireme data prepare --input /usr/share/common-licenses/GPL-3 "
                         "--output " +
         (folder_ / "corpus") + " > /dev/null")
            .c_str());
    require(status == 0, "trireme data prepare ended with status ", status);
  }

  std::string model() const {
    return "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --tp 2 "
           "--use-distributed-optimizer --log-interval 1 --lr-decay-iters 1000 --data-path " +
           (folder_ / "corpus ");
  }
  /// train_gpt that saves into `folder_ / "steps"` and resumes from there.
  std::unique_ptr<KillableJob> start(const std::string& options) {
    const std::string steps = folder_ / "steps";
    return start_as_it_is(str(model(), " --save ", steps, " --load ", steps, " ", options));
  }
  std::unique_ptr<KillableJob> start_as_it_is(const std::string& options) {
    log_ = folder_ / str("log", jobs_++);
    return std::make_unique<KillableJob>(str(TRIREME_MPIRUN " --timeout 100 -np ", ranks),
                                         TRIREME_BIN_DIR "/train_gpt", options, log_);
  }
  /// Of the last job.
  std::string output() const { return read_text(log_); }
  std::vector<Index> steps_in_metrics() const {
    std::ifstream in(folder_ / "steps/metrics.jsonl");
    std::vector<Index> steps;
    for (std::string line; std::getline(in, line);)
      steps.push_back(nlohmann::json::parse(line).at("step"));
    return steps;
  }
  /// Waits until the job itself has done `count` steps.
  void wait_for_steps(int count) const {
    const auto done = [&] {
      std::istringstream lines(output());
      int steps = 0;
      for (std::string line; std::getline(lines, line);)
        steps += line.starts_with("  ") && line.size() > 70;  // of the table
      return steps >= count;
    };
    require(wait_until(done, 90), "no ", count, " steps in 90 s:\n", output());
  }
  std::vector<Index> committed() const {
    std::vector<Index> steps;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "steps")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("step-") && name.find('.') == name.npos)
        steps.push_back(std::stoll(name.substr(5)));
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  static std::vector<Index> counted(Index last) {
    std::vector<Index> all;
    for (Index step = 1; step <= last; ++step) all.push_back(step);
    return all;
  }

  static constexpr int ranks = 4;
  ScratchDirectory folder_;
  std::string log_;
  int jobs_ = 0;
};

constexpr const char* endless = "--train-iters 100000 ";

TEST_F(Stopping, ASignalSavesAndTheNextJobResumes) {
  const auto first = start(endless);
  wait_for_steps(5);
  kill(mpirun_of(*first), SIGUSR1);
  EXPECT_EQ(first->wait(), 75) << output();
  const Index stopped = steps_in_metrics().back();
  EXPECT_THAT(committed(), testing::ElementsAre(stopped));
  // Rank 0 prints, and may learn of the signal from another rank first.
  EXPECT_THAT(output(), HasSubstr(str(": stopped after step ", stopped, ", which is saved")));

  // To one rank only, and not rank 0: all agree.
  const auto second = start(endless);
  wait_for_steps(3);
  kill(ranks_of(*second).at(2), SIGTERM);
  EXPECT_EQ(second->wait(), 75) << output();
  const Index again = steps_in_metrics().back();
  EXPECT_THAT(committed(), testing::ElementsAre(stopped, again));

  const auto third = start(str("--train-iters ", again + 3));
  EXPECT_EQ(third->wait(), 0) << output();
  EXPECT_THAT(steps_in_metrics(), ElementsAreArray(counted(again + 3)));

  const auto nothing = start(str("--generate 8 --train-iters ", again + 3));
  EXPECT_EQ(nothing->wait(), 0) << output();
  EXPECT_THAT(output(), HasSubstr("nothing is left to train"));
  EXPECT_THAT(output(), HasSubstr("generated text"));
  EXPECT_THAT(steps_in_metrics(), ElementsAreArray(counted(again + 3)));
}

TEST_F(Stopping, AJobThatCannotSaveSaysSoAndEndsWithExitCode1) {
  const auto job = start(endless);
  wait_for_steps(3);
  std::filesystem::rename(folder_ / "steps", folder_ / "elsewhere");
  kill(mpirun_of(*job), SIGUSR1);
  EXPECT_EQ(job->wait(), 1) << output();
  EXPECT_THAT(output(), HasSubstr("trireme error: "));
  EXPECT_THAT(output(), HasSubstr(": stopped after step "));
  EXPECT_THAT(output(), HasSubstr("but the last save failed: "));
  EXPECT_THAT(output(), HasSubstr("; this job has no checkpoint"));
}

TEST_F(Stopping, TimeIsALimitToo) {
  const auto job = start(str(endless, "--exit-duration-seconds 3"));
  EXPECT_EQ(job->wait(), 75) << output();
  EXPECT_THAT(committed(), testing::ElementsAre(steps_in_metrics().back()));
  EXPECT_THAT(output(), HasSubstr("--exit-duration-seconds: stopped after step"));
}

TEST_F(Stopping, TheSecondSignalEndsRanksThatWaitForOneThatNeverComes) {
  const auto job = start(endless);
  wait_for_steps(3);
  const std::vector<pid_t> all = ranks_of(*job);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
  kill(all[1], SIGSTOP);
  ASSERT_TRUE(wait_until([&] { return status_line(all[1], "State").starts_with("T"); }));
  kill(all[0], SIGUSR1);  // the others hang in a collective, or will
  const auto seen = [&] { return status_line(all[0], "ShdPnd") == "0000000000000000"; };
  ASSERT_TRUE(wait_until(seen));  // two that wait would be one
  EXPECT_EQ(kill(all[0], 0), 0);
  kill(all[0], SIGTERM);
  EXPECT_EQ(job->wait(), 128 + SIGTERM) << output();  // mpirun ends the rest, the stopped one too
  EXPECT_THAT(committed(), testing::IsEmpty());
}

/// It would be refused after 10 s.
TEST_F(Stopping, AJobThatWaitsForTheLeaseOfAnotherStops) {
  const auto first = start(endless);
  wait_for_steps(1);
  const auto second = start(endless);
  ASSERT_TRUE(wait_until([&] { return output().find("memory planned") != std::string::npos; }));
  kill(ranks_of(*second).at(0), SIGTERM);
  EXPECT_EQ(second->wait(), 75) << output();
  EXPECT_THAT(output(), HasSubstr("SIGTERM: stopped before the first step"));
  EXPECT_EQ(kill(mpirun_of(*first), 0), 0);
}

TEST_F(Stopping, WithoutSaveASignalEndsTheJobAsItAlwaysDid) {
  const auto job = start_as_it_is(str(model(), "--train-iters 100000"));
  wait_for_steps(1);
  kill(ranks_of(*job).at(1), SIGTERM);
  EXPECT_EQ(job->wait(), 128 + SIGTERM) << output();
}

TEST_F(Stopping, MetricsHaveEachStepOnceHoweverOftenTheJobIsKilled) {
  const std::string saves = str(endless, "--save-interval 7 ");
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto job = start(saves);
    wait_for_steps(16);
    job->kill(attempt % 2 == 0 ? Victim::rank : Victim::launcher, static_cast<unsigned>(attempt));
    EXPECT_NE(job->wait(), 0);
    job->wait_until_gone();
    EXPECT_THAT(steps_in_metrics(), ElementsAreArray(counted(steps_in_metrics().back())));
    // What a kill in the middle of a write leaves.
    std::ofstream(folder_ / "steps/metrics.jsonl", std::ios::app) << "{\"step\":99";
  }
  ASSERT_FALSE(committed().empty());
  const Index last = committed().back() + 5;
  const auto job = start(str("--train-iters ", last));
  EXPECT_EQ(job->wait(), 0) << output();
  EXPECT_THAT(steps_in_metrics(), ElementsAreArray(counted(last)));
}

TEST_F(Stopping, MetricsInAFileOfSomethingElseAreRefused) {
  const std::string notes = folder_ / "notes";
  std::ofstream(notes) << "my notes\n";
  const auto job = start(str("--train-iters 2 --metrics ", notes));
  EXPECT_EQ(job->wait(), 64) << output();
  EXPECT_THAT(output(), HasSubstr("--metrics " + notes + ": exists, and is not a file of metrics"));
  EXPECT_EQ(read_text(notes), "my notes\n");
}

}  // namespace
}  // namespace trireme::test
