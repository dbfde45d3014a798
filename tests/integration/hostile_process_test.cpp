// What a process meets that its starter or its machine sets up badly: standard streams that are closed.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/store/steps.h"

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<Index>;

const Layout alone{"one rank, without mpirun", 1, "--micro-batch-size 2"};

constexpr const char* closed_streams[] = {">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"};

class HostileProcess : public testing::Test {
 protected:
  HostileProcess() : jobs_(tiny_gpt) {}

  std::string root() const { return jobs_ / "run"; }
  std::string saving(const std::string& options) const {
    return jobs_.training(alone, str("--save ", root(), " ", options));
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
    EXPECT_EQ(read_metrics(root() + "/metrics.jsonl").size(), 8U);
  }
}

TEST_F(HostileProcess, TriremeHasAllStandardStreamsToo) {
  const std::string input = "data prepare --input /dev/stdin --output " + (jobs_ / "tokens");
  const Outcome outcome = jobs_.run(CheckpointJobs::trireme(input + " <&-"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, testing::HasSubstr("/dev/stdin: is not a regular file"));
}

}  // namespace
}  // namespace trireme::test
