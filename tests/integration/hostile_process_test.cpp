// What a job meets that its user, its starter or its machine does to it: closed standard streams, options with which
// training diverges.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/store/steps.h"

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
  EXPECT_THAT(outcome.output, HasSubstr("/dev/stdin: is not a regular file"));
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

}  // namespace
}  // namespace trireme::test
