// Saves are really asynchronous: while the disk does not take one byte of a save, training
// continues; and a job that is killed in that time resumes from the step before.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/steps.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const Layout one_rank{"one rank", 1, "--micro-batch-size 8"};
const Layout two_ranks{"data 2", 2, "--micro-batch-size 4"};

bool save_is_under_way(const std::string& root) {
  std::error_code none_yet;
  for (const auto& entry : fs::directory_iterator(root, none_yet))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

/// A job whose saves wait, at the first call to a file of theirs, until the test lets them
/// continue.
class HeldSaves {
 public:
  explicit HeldSaves(const CheckpointJobs& jobs) : hold_(jobs / "hold"), root_(jobs / "held") {
    std::ofstream(hold_) << "\n";
  }
  void release() const { fs::remove(hold_); }

  /// For the environment of each rank. `rank`: the one whose files wait; none: every rank's.
  std::string environment(const std::string& rank = "") const {
    return str("TRIREME_SHIM_ROOT=", root_, " TRIREME_SHIM_FAULT=hold=", hold_,
               rank.empty() ? "" : " TRIREME_SHIM_RANK=" + rank, " LD_PRELOAD=" TRIREME_IO_SHIM);
  }
  const std::string& root() const { return root_; }
  /// Outside of the root, whose files are watched.
  std::string metrics() const { return root_ + ".jsonl"; }
  bool reach_step(int step) const {
    return wait_until([&] { return count(read_text(metrics()), "\n") >= step; });
  }

 private:
  std::string hold_, root_;
};

/// Page faults of a process's first thread, which is the one that trains; proc(5).
Index page_faults(pid_t process) {
  const std::string line = read_text(str("/proc/", process, "/stat"));
  std::istringstream fields(line.substr(line.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 10; ++field) fields >> skipped;
  Index minor = -1;
  fields >> minor;
  return minor;
}

/// The steps 31 to 50 are done while the save of step 30 waits for the disk: none of them waits for
/// it.
void expect_steps_beside_a_held_save(const Layout& layout, const std::string& held_rank) {
  const CheckpointJobs jobs(small_gpt);
  const HeldSaves saves(jobs);
  BackgroundProcess job("exec " + jobs.training(layout,
                                                str("--train-iters 60 --save-interval 30 --save ",
                                                    saves.root(), " --metrics ", saves.metrics()),
                                                saves.environment(held_rank)),
                        jobs / "log");
  ASSERT_TRUE(saves.reach_step(50)) << job.output();
  EXPECT_TRUE(save_is_under_way(saves.root()));
  EXPECT_THAT(committed_steps(saves.root()), ElementsAre());
  saves.release();
  EXPECT_EQ(job.wait().exit_code, 0) << job.output();
  EXPECT_THAT(committed_steps(saves.root()), ElementsAre(60, 30));
}

TEST(AsynchronousSave, StepsOfOneRankDoNotWaitForIt) {
  expect_steps_beside_a_held_save(one_rank, "");
}

TEST(AsynchronousSave, StepsOfTwoRanksDoNotWaitForIt) {
  expect_steps_beside_a_held_save(two_ranks, "");
}

/// A collective between them would be one.
TEST(AsynchronousSave, NoRankWaitsForTheDiskOfAnother) {
  expect_steps_beside_a_held_save(two_ranks, "0");
  expect_steps_beside_a_held_save(two_ranks, "1");
}

/// As a copy on write would: its price is paid by the steps.
TEST(AsynchronousSave, StepsBesideItMeetNoPageFaults) {
  const CheckpointJobs jobs(small_gpt);
  const HeldSaves saves(jobs);
  BackgroundProcess job(
      str("exec env ", saves.environment(), " ",
          jobs.program(str(one_rank.options, " --train-iters 2000 --save-interval 100 --save ",
                           saves.root(), " --metrics ", saves.metrics()))),
      jobs / "log");
  ASSERT_TRUE(saves.reach_step(90)) << job.output();
  const Index before = page_faults(job.id());
  ASSERT_GT(before, 0);
  ASSERT_TRUE(saves.reach_step(190)) << job.output();
  const Index beside = page_faults(job.id()) - before;
  ASSERT_TRUE(save_is_under_way(saves.root()));
  EXPECT_LT(beside, 100);  // in 100 steps and the copy of 1700 pages
}

TEST(AsynchronousSave, KilledInItTheJobResumesFromTheStepBefore) {
  const CheckpointJobs jobs(small_gpt);
  const HeldSaves saves(jobs);
  const std::string straight = jobs / "straight", &root = saves.root();
  jobs.succeed(jobs.training(one_rank, "--train-iters 100 --save " + straight));
  jobs.succeed(jobs.training(
      one_rank, str("--train-iters 20 --save ", root, " --metrics ", saves.metrics())));

  // Not through timeout(1), so that the signal meets the program.
  const std::string to_the_end = str("--train-iters 100 --save-interval 40 --save ", root,
                                     " --load ", root, " --metrics ", saves.metrics());
  BackgroundProcess job(
      str("exec env ", saves.environment(), " ", jobs.program(one_rank.options + " " + to_the_end)),
      jobs / "log");
  ASSERT_TRUE(saves.reach_step(65)) << job.output();
  job.send(SIGKILL);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGKILL);
  ASSERT_TRUE(save_is_under_way(root));  // what it left
  ASSERT_EQ(committed_steps(root), std::vector<Index>{20});

  const std::string output = jobs.succeed(jobs.training(one_rank, to_the_end));
  EXPECT_THAT(output, HasSubstr("loaded step 20 of " + root));
  EXPECT_FALSE(save_is_under_way(root));
  const auto expected = read_metrics(straight + "/metrics.jsonl"),
             found = read_metrics(saves.metrics());
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, line] : expected) {
    EXPECT_EQ(found.at(step).loss, line.loss) << "step " << step;
    EXPECT_EQ(found.at(step).grad_norm, line.grad_norm) << "step " << step;
  }
  EXPECT_EQ(first_difference(read_checkpoint(straight + "/" + step_name(100)),
                             read_checkpoint(root + "/" + step_name(100))),
            "");
}

}  // namespace
}  // namespace trireme::test
