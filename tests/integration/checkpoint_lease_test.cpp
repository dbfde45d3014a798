// A process that dies, or whose disk fails, at any one call of taking the lease, saving and giving
// the lease back: the next job has the directory at once, and nothing but whole steps is in it
// then.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/lease/lease.h"
#include "tests/crash/crash_steps.h"
#include "tests/io_shim/run_with_shim.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Not;
using ::testing::StartsWith;

/// A lease that is only taken for its age is not taken before the test's time-out.
constexpr LeaseOptions patient{.wait_s = 1e6, .stale_s = 1e6, .renew_s = 1, .torn_s = 1e6};

class Leases : public ::testing::Test {
 protected:
  ShimRun run(long call, const std::string& fault) const {
    std::filesystem::remove_all(root_);
    return run_with_shim(quoted(TRIREME_CHECKPOINT_TOOL) + " job " + quoted(root_) + " 20",
                         {.root = root_, .call = call, .what = fault}, folder_ / "log");
  }

  /// What a job does that starts now.
  void expect_the_next_job_starts(const LeaseOptions& options) const {
    const Lease lease(root_, "next", options);
    EXPECT_TRUE(lease.held());
    clean_leftovers(root_);
    EXPECT_THAT(list_directory(root_),
                AnyOf(ElementsAre("lock"), ElementsAre("lock", "step-000020")));
    values_of(root_);
  }

  /// `also`: what the shim does besides.
  void die_everywhere(const std::string& also, const LeaseOptions& options) const {
    const ShimRun whole = run(0, also);
    ASSERT_EQ(whole.code, 0) << whole.output;
    ASSERT_GE(whole.calls, 20);
    for (const char* fault : {"die_before", "die_half", "die_after"})
      for (long call = 1; call <= whole.calls; ++call) {
        SCOPED_TRACE(str(fault, " call ", call, " of ", whole.calls, ", ", also));
        ASSERT_EQ(run(call, fault + ("," + also)).code, died);
        expect_the_next_job_starts(options);
      }
  }

  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  const std::string root_ = folder_ / "run";
};

TEST_F(Leases, OfAJobThatDiesAtAnyCallIsTakenAtOnce) { die_everywhere("", patient); }

TEST_F(Leases, WhereThereAreNoHardLinksATornLockIsSoonVoid) {
  LeaseOptions options = patient;
  options.torn_s = 0.02;
  die_everywhere("link=EPERM", options);
}

TEST_F(Leases, NoErrorAtAnyCallLeavesALockBehind) {
  for (const std::string also : {"", "link=EPERM"}) {
    const ShimRun whole = run(0, also);
    for (const char* fault : {"ENOSPC", "EDQUOT", "EIO", "EROFS", "EINTR", "short"})
      for (long call = 1; call <= whole.calls; ++call) {
        SCOPED_TRACE(str(fault, " at call ", call, " of ", whole.calls, ", ", also));
        const ShimRun faulty = run(call, fault + ("," + also));
        EXPECT_THAT(faulty.code, AnyOf(Eq(0), Eq(failed))) << faulty.output;
        if (std::filesystem::exists(root_)) expect_the_next_job_starts(patient);
      }
  }
}

}  // namespace
}  // namespace trireme::test
