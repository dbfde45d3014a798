// Saves are really asynchronous: while every write is so slow that one save outlasts 20 steps and more, steps take the time
// that they take without a save; and a job that is killed in that time goes on from the step before.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/store/steps.h"

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string slow_disk(const std::string& root, double write_ms) {
  return str("TRIREME_SHIM_ROOT=", root,
             " TRIREME_SHIM_FAULT=delay_us=", static_cast<Index>(write_ms * 1000),
             " LD_PRELOAD=" TRIREME_IO_SHIM);
}

bool save_is_under_way(const std::string& root) {
  std::error_code none_yet;
  for (const auto& entry : fs::directory_iterator(root, none_yet))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

/// Steps as somebody beside the job sees them: when each one's line of metrics came, and whether a save was under way.
struct SeenStep {
  double ms;  // since the one before
  bool saving;
};

std::vector<SeenStep> watch(BackgroundProcess& job, const std::string& root,
                            const std::string& metrics) {
  using Clock = std::chrono::steady_clock;
  std::vector<SeenStep> steps;
  Clock::time_point last = Clock::now();
  std::uintmax_t seen = 0;
  bool was_saving = false;
  while (job.running()) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    std::error_code none_yet;
    const std::uintmax_t bytes = fs::file_size(metrics, none_yet);
    if (none_yet || bytes == seen) continue;
    seen = bytes;
    const bool saving = save_is_under_way(root);
    const Clock::time_point now = Clock::now();
    // A step counts as one beside a save when the save lasted through it. The step that ends with the start of a save is
    // among the others: what it waits for is the copy.
    steps.push_back(
        {std::chrono::duration<double, std::milli>(now - last).count(), saving && was_saving});
    last = now;
    was_saving = saving;
  }
  return steps;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

struct Medians {
  double beside, without;
  double change() const { return beside / without - 1; }
};

/// Of steps without saves, on this machine, now.
double usual_step_ms(const CheckpointJobs& jobs, const Layout& layout) {
  const std::string metrics = jobs / "usual";
  std::filesystem::remove(metrics);
  jobs.succeed(jobs.training(layout, "--train-iters 40 --metrics " + metrics));
  std::vector<double> all;
  for (const auto& [step, line] : read_metrics(metrics)) all.push_back(line.step_ms);
  return median(all);
}

/// Saves at steps 200, 400 and 600. Each one makes three or more writes one after the other: two or more of a shard, one of
/// the manifest; so that it lasts for 60 steps at least.
Medians medians(const CheckpointJobs& jobs, const Layout& layout, const std::string& name) {
  const std::string root = jobs / name, metrics = root + ".jsonl";
  BackgroundProcess job("exec " + jobs.training(layout,
                                                str("--train-iters 600 --save-interval 200 --save ",
                                                    root, " --metrics ", metrics),
                                                slow_disk(root, 20 * usual_step_ms(jobs, layout))),
                        jobs / "log");
  const std::vector<SeenStep> steps = watch(job, root, metrics);
  EXPECT_EQ(job.wait().exit_code, 0) << job.output();
  std::vector<double> beside, without;
  for (std::size_t i = 20; i < steps.size(); ++i)
    (steps[i].saving ? beside : without).push_back(steps[i].ms);
  EXPECT_GE(beside.size(), 40U) << job.output();  // the third save is at the end, beside nothing
  EXPECT_GE(without.size(), 40U) << job.output();
  if (beside.empty() || without.empty()) return {1, 0};
  const Medians found{median(beside), median(without)};
  fmt::print("# {}: {} steps beside a save {:.2f} ms, {} others {:.2f} ms: {:+.1f} %\n",
             layout.name, beside.size(), found.beside, without.size(), found.without,
             100 * found.change());
  return found;
}

/// A machine that does other things as well may do them in one half only: three attempts.
void expect_steps_take_no_longer(const Layout& layout) {
  const CheckpointJobs jobs(small_gpt);
  double least = 1e9;
  for (int attempt = 0; attempt < 3 && least >= 0.1 && !testing::Test::HasFailure(); ++attempt)
    least = std::min(least, medians(jobs, layout, str("attempt-", attempt)).change());
  EXPECT_LT(least, 0.1);
}

TEST(AsynchronousSave, StepsOfOneRankTakeNoLongerBesideIt) {
  expect_steps_take_no_longer({"one rank", 1, "--micro-batch-size 8"});
}

TEST(AsynchronousSave, StepsOfTwoRanksTakeNoLongerBesideIt) {
  expect_steps_take_no_longer({"data 2", 2, "--micro-batch-size 4"});
}

TEST(AsynchronousSave, KilledInItTheJobGoesOnFromTheStepBefore) {
  const CheckpointJobs jobs(small_gpt);
  const Layout one{"one rank", 1, "--micro-batch-size 8"};
  const std::string straight = jobs / "straight", root = jobs / "killed";
  const std::string metrics = root + ".jsonl";  // beside the slow disk
  jobs.succeed(jobs.training(one, "--train-iters 100 --save " + straight));
  jobs.succeed(jobs.training(one, str("--train-iters 20 --save ", root, " --metrics ", metrics)));

  // Not through timeout(1), so that the signal meets the program. The save of step 40 takes 6 s and more.
  const std::string to_the_end = str("--train-iters 100 --save-interval 40 --save ", root,
                                     " --load ", root, " --metrics ", metrics);
  BackgroundProcess job(
      str("exec env ", slow_disk(root, 2000), " ", jobs.program(one.options + " " + to_the_end)),
      jobs / "log");
  const auto steps_done = [&] { return count(read_text(metrics), "\n"); };
  ASSERT_TRUE(wait_until([&] { return steps_done() >= 65; })) << job.output();
  job.send(SIGKILL);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGKILL);
  ASSERT_TRUE(save_is_under_way(root));  // what it left
  ASSERT_EQ(committed_steps(root), std::vector<Index>{20});

  const std::string output = jobs.succeed(jobs.training(one, to_the_end));
  EXPECT_THAT(output, HasSubstr("loaded step 20 of " + root));
  EXPECT_FALSE(save_is_under_way(root));
  const auto expected = read_metrics(straight + "/metrics.jsonl"), found = read_metrics(metrics);
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
