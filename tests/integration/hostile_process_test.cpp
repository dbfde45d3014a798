// What a job meets that its user, its starter or its machine does to it: closed standard streams,
// options with which training diverges, data that is cut while it is read, signals at any time,
// limits of file sizes.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store/steps.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Steps = std::vector<Index>;

const Layout alone{"one rank, without mpirun", 1, "--micro-batch-size 2"};

const Layout pair{"data 2", 2, ""};

constexpr const char* closed_streams[] = {">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"};

class HostileProcess : public testing::Test {
 protected:
  HostileProcess() : jobs_(tiny_gpt) {}

  std::string root() const { return jobs_ / "run"; }
  std::string metrics() const { return root() + "/metrics.jsonl"; }
  std::string saving(const std::string& options, const Layout& layout = alone) const {
    return jobs_.training(layout, str("--save ", root(), " --load ", root(), " ", options));
  }
  /// Starts a job of many steps and waits until it has done some.
  std::unique_ptr<BackgroundProcess> start_saving(const std::string& options,
                                                  const Layout& layout) const {
    const std::string command = saving("--train-iters 1000000 " + options, layout);
    auto job = std::make_unique<BackgroundProcess>("exec " + command, jobs_ / "log");
    require(wait_until([&] { return count(read_text(metrics()), "\n") > 3 || !job->running(); }) &&
                job->running(),
            "no steps:\n", job->output());
    return job;
  }

  CheckpointJobs jobs_;
};

TEST_F(HostileProcess, SavesTheSameWhateverStandardStreamsAreClosed) {
  for (const std::string closed : closed_streams) {
    SCOPED_TRACE(closed);
    fs::remove_all(root());
    const Outcome outcome = jobs_.run(saving("--train-iters 8 --save-interval 2 ") + closed);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(committed_steps(root()), (Steps{8, 6, 4, 2}));
    EXPECT_FALSE(fs::exists(root() + "/lock")) << read_text(root() + "/lock");
    EXPECT_EQ(read_metrics(metrics()).size(), 8U);
  }
}

TEST_F(HostileProcess, TriremeHasAllStandardStreamsToo) {
  const std::string input = "data prepare --input /dev/stdin --output " + (jobs_ / "tokens");
  const Outcome outcome = jobs_.run(CheckpointJobs::trireme(input + " <&-"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("/dev/stdin: is empty"));
}

TEST_F(HostileProcess, ADivergedJobStopsAndKeepsTheCheckpointToGoBackTo) {
  const std::string options = "--save-interval 5 --keep-last 1 ";
  jobs_.succeed(saving(options + "--train-iters 10", pair));
  const Outcome outcome =
      jobs_.run(saving(options + "--train-iters 40 --lr 1e10 --lr-decay-style constant", pair));
  EXPECT_EQ(outcome.exit_code, 65) << outcome.output;
  EXPECT_EQ(count(outcome.output, "trireme error: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("the last 10 steps were not finite"),
                                    HasSubstr("the last update was that of step 11; go back to "
                                              "the newest checkpoint, that of step 10,")));
  EXPECT_EQ(committed_steps(root()), Steps{10});
  EXPECT_EQ(count(read_text(metrics()), "\n"), 21);
  jobs_.succeed(saving(options + "--train-iters 15", pair));
  EXPECT_EQ(committed_steps(root()), Steps{15});
}

TEST_F(HostileProcess, DataThatIsCutWhileItIsReadIsNamed) {
  for (const Layout& layout : {alone, pair}) {
    SCOPED_TRACE(layout.name);
    fs::remove_all(root());
    for (const char* suffix : {".bin", ".idx"})
      fs::copy_file(jobs_.data + suffix, jobs_ / "cut" + suffix,
                    fs::copy_options::overwrite_existing);
    CheckpointJobs& jobs = jobs_;
    const std::string data = std::exchange(jobs.data, jobs_ / "cut");
    const auto job = start_saving("", layout);
    jobs.data = data;
    fs::resize_file(jobs_ / "cut.bin", 0);
    const Outcome outcome = job->wait();
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "trireme error: "), 1) << outcome.output;
    EXPECT_THAT(outcome.output,
                HasSubstr(jobs_ / "cut.bin: the data changed or its file system went away"));
  }
}

TEST_F(HostileProcess, ASignalInAnEvaluationSavesAtOnce) {
  const auto job =
      start_saving("--eval-interval 5 --eval-iters 1000000000 --save-interval 3", pair);
  ASSERT_TRUE(wait_until([&] { return committed_steps(root()) == Steps{3}; })) << job->output();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the evaluation has begun
  job->send(SIGUSR1);
  ASSERT_TRUE(wait_until([&] { return !job->running(); })) << job->output();
  EXPECT_EQ(job->wait().exit_code, 75) << job->output();
  const Index stopped = committed_steps(root()).front();
  EXPECT_EQ(count(read_text(metrics()), "\n"), stopped);
  EXPECT_EQ(count(read_text(metrics()), "valid_loss"), 0);
  jobs_.succeed(saving(str("--eval-interval 1 --eval-iters 2 --train-iters ", stopped + 1), pair));
  EXPECT_EQ(count(read_text(metrics()), "valid_loss"), 1);
}

TEST_F(HostileProcess, ASignalInGenerationEndsAJobThatIsSaved) {
  const std::string command = "exec " + saving("--train-iters 2 --generate 1000000000", pair);
  BackgroundProcess job(command, jobs_ / "log");
  ASSERT_TRUE(wait_until([&] { return committed_steps(root()) == Steps{2}; })) << job.output();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // generation has begun
  job.send(SIGUSR1);
  ASSERT_TRUE(wait_until([&] { return !job.running(); })) << job.output();
  EXPECT_EQ(job.wait().exit_code, 75) << job.output();
}

TEST_F(HostileProcess, ASignalEndsAJobThatWaitsForItsOptions) {
  const std::string pipe = jobs_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  BackgroundProcess job("exec " + jobs_.program("--save " + root() + " --config " + pipe),
                        jobs_ / "log");
  int writer = -1;  // opened without waiting when there is a reader only
  ASSERT_TRUE(
      wait_until([&] { return (writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; }));
  job.send(SIGTERM);
  EXPECT_TRUE(wait_until([&] { return !job.running(); })) << job.output();
  close(writer);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGTERM);
}

std::set<std::string> scratch_files() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm"))
    if (entry.path().string().find("trireme-layout-") != std::string::npos)
      names.insert(entry.path());
  return names;
}

TEST_F(HostileProcess, ALimitOfFileSizesBelowAShardIsRefused) {
  for (const int kilobytes : {0, 500}) {
    SCOPED_TRACE(kilobytes);
    const std::set<std::string> before = scratch_files();
    const std::string job = str("ulimit -f ", kilobytes, "; exec ", saving("--train-iters 4"));
    const Outcome outcome =
        jobs_.run("bash -c 'set -o pipefail; (" + job + ") 2>&1 | cat'");  // its output is no file
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_THAT(outcome.output,
                AllOf(HasSubstr("- --save " + root() + ": "), HasSubstr("(ulimit -f)")));
    EXPECT_TRUE(wait_until([&] {  // others are of other tests, and go
      const std::set<std::string> now = scratch_files();
      return std::includes(before.begin(), before.end(), now.begin(), now.end());
    }));
    EXPECT_FALSE(fs::exists(root()));
  }
}

TEST_F(HostileProcess, ALimitOfFileSizesThatComesLaterCostsSavesOnly) {
  BackgroundProcess job("exec " + jobs_.program("--train-iters 1000000 --save-interval 20 "
                                                "--keep-last 2 --metrics /dev/null --save " +
                                                root()),
                        jobs_ / "log");
  const auto saved = [&] { return count(job.output(), "saved step "); };
  ASSERT_TRUE(wait_until([&] { return saved() > 0; })) << job.output();
  const rlimit low = {100000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(prlimit(job.id(), RLIMIT_FSIZE, &low, nullptr), 0);
  ASSERT_TRUE(wait_until([&] { return count(job.output(), "is not saved: ") > 1; }))
      << job.output();
  ASSERT_EQ(prlimit(job.id(), RLIMIT_FSIZE, &none, nullptr), 0);
  const int before = saved();
  ASSERT_TRUE(wait_until([&] { return saved() > before; })) << job.output();
  job.send(SIGUSR1);
  EXPECT_EQ(job.wait().exit_code, 75) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("File too large; training continues"));
  EXPECT_EQ(committed_steps(root()).size(), 2U);
  jobs_.succeed(CheckpointJobs::trireme("checkpoint verify " + root()));
}

}  // namespace
}  // namespace trireme::test
