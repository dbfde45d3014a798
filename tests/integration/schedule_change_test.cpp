// A job that is killed resumes under another schedule, to the same bits: schedules differ in when
// they run the same sums, not in their order (docs/concepts/schedules.md).
#include <chrono>
#include <thread>

#include "tests/support/kill_job.h"
#include "tests/support/saving_jobs.h"

namespace trireme::test {
namespace {

class ScheduleChange : public SavingJobs {
 protected:
  static Layout under(const std::string& schedule) {
    return {schedule, 2, "--pp 2 --micro-batch-size 1 --schedule " + schedule};
  }
  std::string saving_to(const std::string& root, Index steps, const std::string& more = "") const {
    return str("--train-iters ", steps, " --save-interval 3 --save ", jobs_ / root, " --metrics ",
               jobs_ / root, ".jsonl ", more);
  }
  Index newest_step(const std::string& root) const {
    const std::vector<Index> steps = committed_steps(jobs_ / root);
    return steps.empty() ? 0 : steps.front();
  }

  /// Kills a rank some time after the first save. Returns the newest step.
  Index train_until_killed(const std::string& root, const std::string& schedule) const {
    const Layout layout = under(schedule);
    KillableJob job(str(TRIREME_MPIRUN " --timeout 120 -np ", layout.ranks),
                    TRIREME_BIN_DIR "/train_gpt",
                    str("--data-path ", jobs_.data, " --global-batch-size 8 ", jobs_.model, " ",
                        layout.options, " ", saving_to(root, 100000)),
                    jobs_ / (root + ".log"));
    while (newest_step(root) == 0 && !job.ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(job.kill(Victim::rank, 1).has_value());
    job.wait();
    job.wait_until_gone();
    return newest_step(root);
  }
  std::vector<StepLine> steps_in(const std::string& root) const {
    return steps_of(read_metrics(jobs_ / (root + ".jsonl")), 0);
  }

  void expect_same(const std::string& a, const std::string& b, Index step) const {
    const std::vector<StepLine> mine = steps_in(a), other = steps_in(b);
    ASSERT_EQ(mine.size(), static_cast<std::size_t>(step));
    ASSERT_EQ(other.size(), mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine[i].loss, other[i].loss) << "step " << i + 1;
      EXPECT_EQ(mine[i].grad_norm, other[i].grad_norm) << "step " << i + 1;
    }
    EXPECT_EQ(first_difference(read_checkpoint(directory(jobs_ / a, step)),
                               read_checkpoint(directory(jobs_ / b, step))),
              "");
  }
};

TEST_F(ScheduleChange, AfterAKillGivesTheBitsOfTheRunWithoutOne) {
  for (const auto& [first, second] : {std::pair{"1f1b", "zero-bubble"}, {"zero-bubble", "1f1b"}}) {
    SCOPED_TRACE(str(first, ", then ", second));
    const std::string root = str("from-", first), whole = str("not-from-", first);
    const Index last = train_until_killed(root, first) + 3;
    jobs_.succeed(jobs_.training(under(second), saving_to(root, last, "--load " + (jobs_ / root))));
    jobs_.succeed(jobs_.training(under("1f1b"), saving_to(whole, last)));
    expect_same(root, whole, last);
  }
}

}  // namespace
}  // namespace trireme::test
