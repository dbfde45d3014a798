// The power goes at any moment of a save, of a deletion, of taking the lease: on every disk that
// may be found then (tests/crash/power_cut.h) recovery finds whole steps, the older ones among
// them, and what was reported durable.
#include <chrono>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/lease/lease.h"
#include "tests/crash/crash_steps.h"
#include "tests/crash/power_cut.h"
#include "tests/io_shim/run_with_shim.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int random_disks = 25;  // besides the systematic ones, at each call

class PowerCut : public ::testing::Test {
 protected:
  void start_with(const std::vector<Index>& steps) {
    std::filesystem::remove_all(root_);
    std::filesystem::remove(folder_ / "record");
    for (const Index step : steps) commit_toy(root_, step, state_of(1));
    before_ = read_tree(root_);
  }
  /// Runs checkpoint_tool with `arguments` on what is there; what it and those before did is in
  /// `calls_`.
  ShimRun record(const std::string& arguments, long call = 0, const std::string& fault = "") {
    const auto space = arguments.find(' ');
    const std::string command =
        arguments.substr(0, space) + " " + quoted(root_) + " " + arguments.substr(space + 1);
    const ShimRun run =
        run_with_shim(quoted(TRIREME_CHECKPOINT_TOOL) + " " + command,
                      {.root = root_, .call = call, .what = fault, .record = folder_ / "record"},
                      folder_ / "log");
    calls_ = read_record(folder_ / "record", root_);
    return run;
  }
  void record_success(const std::string& arguments) {
    const ShimRun run = record(arguments);
    ASSERT_EQ(run.code, 0) << run.output;
    ASSERT_GE(calls_.size(), 3u);
  }

  using Check = std::function<void(std::size_t done, const Tree& disk)>;
  /// `check` for each disk after each call from the one numbered `from` on. Syncs of the path
  /// `ignored` do nothing.
  void cut_everywhere(const Check& check, std::size_t from = 0,
                      const std::string& ignored = "nothing") const {
    Disk disk(before_);
    std::set<Tree> seen;  // between two syncs, when it does not matter how far the process came
    for (std::size_t done = 0; done <= calls_.size(); ++done) {
      if (done >= from)
        for (const Tree& tree : disk.after_cut(random_disks))
          if (seen.insert(tree).second) {
            SCOPED_TRACE(str("cut after call ", done, " of ", calls_.size()));
            check(done, tree);
          }
      if (done == calls_.size()) return;
      const RecordedCall& call = calls_[done];
      if (call.name != "fsync") {
        disk.apply(call);
      } else {
        if (call.path != ignored) disk.apply(call);
        seen.clear();
      }
    }
  }

  /// What is found on a disk: as it lies there, and after the next start has cleaned up. Throws:
  /// Error when a step is not whole.
  struct Found {
    Values at_once, cleaned;
  };
  Found found(const Tree& tree) const {
    write_tree(tree, disk_);
    Found values;
    values.at_once = values_of(disk_);
    clean_leftovers(disk_);
    values.cleaned = values_of(disk_);
    EXPECT_THAT(list_directory(disk_), Each(Not(HasSubstr("."))));
    return values;
  }

  /// Calls until the step was reported durable: the last sync of the root.
  std::size_t commit() const {
    for (std::size_t i = calls_.size(); i > 0; --i)
      if (calls_[i - 1].name == "fsync" && calls_[i - 1].path.empty()) return i;
    throw Error("the root is never synced");
  }

  /// A save that ends well: one of `either` until it is durable, then only `after`.
  void expect_commit(const std::vector<Values>& either, const Values& before, const Values& after) {
    int disks = 0, with_new = 0;
    cut_everywhere([&](std::size_t done, const Tree& tree) {
      const Found values = found(tree);
      EXPECT_THAT(either, Contains(values.at_once));
      EXPECT_TRUE(values.cleaned == before || values.cleaned == after);
      if (done >= commit()) {
        EXPECT_EQ(values.at_once, after);
      }
      ++disks;
      with_new += values.cleaned == after ? 1 : 0;
    });
    EXPECT_GT(disks, 30);
    EXPECT_GT(with_new, 0);
    RecordProperty("disks", disks);
  }

  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  const std::string root_ = folder_ / "run", disk_ = folder_ / "disk";
  Tree before_;
  std::vector<RecordedCall> calls_;
};

const Values old_steps = {{80, 1}, {100, 1}};

TEST_F(PowerCut, InASaveLeavesWholeStepsAndWhatWasReportedDurable) {
  start_with({80, 100});
  record_success("save 120 2");
  const Values after = {{80, 1}, {100, 1}, {120, 2}};
  expect_commit({old_steps, after}, old_steps, after);
}

TEST_F(PowerCut, InASaveInPlaceOfAStepLeavesTheOldOrTheNew) {
  start_with({80, 100});
  record_success("save 100 2");
  const Values after = {{80, 1}, {100, 2}};
  expect_commit({old_steps, after}, old_steps, after);
}

TEST_F(PowerCut, WhereNamesCannotBeExchangedRecoveryBringsTheOldBack) {
  start_with({80, 100});
  record_success("save 100 2 no-exchange");
  const Values after = {{80, 1}, {100, 2}};
  expect_commit({old_steps, after, {{80, 1}}}, old_steps, after);
}

TEST_F(PowerCut, InADeletionLeavesNoHalfStepUnderItsName) {
  start_with({80, 100, 120});
  record_success("prune 1");
  cut_everywhere([&](std::size_t, const Tree& tree) {
    const Found values = found(tree);
    EXPECT_EQ(values.at_once.count(120), 1u);
    EXPECT_EQ(values.cleaned, values.at_once);
  });
}

TEST_F(PowerCut, AfterAnErrorAtAnyCallOfASaveLeavesTheOldOrTheNew) {
  for (const Index step : {120, 100}) {
    Values after = old_steps;
    after[step] = 2;
    const std::string save = str("save ", step, " 2");
    start_with({80, 100});
    const long calls = record(save).calls;
    for (long call = 1; call <= calls; ++call) {
      SCOPED_TRACE(str(save, ", EIO at call ", call, " of ", calls));
      start_with({80, 100});
      const ShimRun run = record(save, call, "EIO");
      cut_everywhere([&](std::size_t done, const Tree& tree) {
        const Values values = found(tree).at_once;
        EXPECT_TRUE(values == old_steps || values == after);
        if (run.code == 0 && done == calls_.size()) {
          EXPECT_EQ(values, after);
        }
      });
    }
  }
}

/// What the first process did and did not sync may still be lost while the second one tidies up.
TEST_F(PowerCut, AfterACrashAndWhileTheNextJobCleansUpLeavesWholeSteps) {
  for (const std::string first : {"prune 1", "save 100 2", "save 100 2 no-exchange"}) {
    start_with({80, 100, 120});
    const long calls = record(first).calls;
    for (long call = 1; call <= calls; ++call) {
      SCOPED_TRACE(str(first, ", dies after call ", call, " of ", calls));
      start_with({80, 100, 120});
      record(first, call, "die_after");
      const std::size_t from = calls_.size();
      record_success("job 140");
      cut_everywhere(
          [&](std::size_t done, const Tree& tree) {
            const Values values = found(tree).cleaned;
            EXPECT_EQ(values.count(120), 1u);
            EXPECT_TRUE(first == "prune 1" || values.count(100) == 1);
            if (done >= commit()) {
              EXPECT_EQ(values.count(140), 1u);
            }
          },
          from);
    }
  }
}

/// Each of them is there for a reason: without it some disk is found that breaks what is promised.
TEST_F(PowerCut, EverySyncOfASaveIsNeeded) {
  start_with({80, 100});
  record_success("save 120 2");
  const Values after = {{80, 1}, {100, 1}, {120, 2}};
  std::set<std::string> synced;
  for (const RecordedCall& call : calls_)
    if (call.name == "fsync") synced.insert(call.path);
  EXPECT_EQ(synced.size(),
            5u);  // the shard, checkpoint.h5, the manifest, their directory, the root
  for (const std::string& path : synced) {
    int broken = 0;
    cut_everywhere(
        [&](std::size_t done, const Tree& tree) {
          try {
            const Values values = found(tree).cleaned;
            broken += values != after && (values != old_steps || done >= commit()) ? 1 : 0;
          } catch (const Error&) {
            ++broken;
          }
        },
        0, path);
    EXPECT_GT(broken, 0) << "without fsync of \"" << path << "\"";
  }
}

TEST_F(PowerCut, TheSyncOfADeletionIsNeeded) {
  start_with({80, 100, 120});
  record_success("prune 1");
  int broken = 0;
  cut_everywhere(
      [&](std::size_t, const Tree& tree) {
        write_tree(tree, disk_);
        try {
          values_of(disk_);
        } catch (const Error&) {
          ++broken;
        }
      },
      0, "");
  EXPECT_GT(broken, 0);
}

TEST_F(PowerCut, LeavesNoLockThatBlocksTheNextJob) {
  start_with({80, 100});
  record_success("job 120");
  // A lock that is only void for its age blocks until the test's time-out.
  constexpr LeaseOptions patient{.wait_s = 1e6, .stale_s = 1e6, .renew_s = 1, .torn_s = 1e6};
  cut_everywhere([&](std::size_t, const Tree& tree) {
    write_tree(tree, disk_);
    const Lease lease(disk_, "next", patient);
    clean_leftovers(disk_);
    EXPECT_EQ(values_of(disk_).count(100), 1u);
  });
}

}  // namespace
}  // namespace trireme::test
