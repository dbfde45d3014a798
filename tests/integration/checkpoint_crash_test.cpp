// A process that dies, or whose disk fails, at any one call of a save or of a deletion: what is
// found then are whole steps, the older ones untouched, and the next save works. Every call of the
// commit is tried (tests/io_shim counts them).
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "tests/crash/crash_steps.h"
#include "tests/io_shim/run_with_shim.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;

/// Memory makes fsync quick, but has no O_DIRECT.
enum class On { disk, memory };

/// A directory with whole steps, made once and copied for each trial.
class Trials {
 public:
  explicit Trials(const std::vector<Index>& steps, On on = On::memory)
      : folder_(on == On::memory ? ScratchDirectory::in_memory() : ScratchDirectory::on_disk()) {
    for (const Index step : steps) commit_toy(folder_ / "template", step, state_of(1));
  }
  ShimRun run(const std::string& arguments, long call, const std::string& fault) const {
    std::filesystem::remove_all(root());
    std::filesystem::copy(folder_ / "template", root(), std::filesystem::copy_options::recursive);
    return again(arguments, call, fault);
  }
  /// On what is there.
  ShimRun again(const std::string& arguments, long call = 0, const std::string& fault = "") const {
    const auto space = arguments.find(' ');
    const std::string command =
        arguments.substr(0, space) + " " + quoted(root()) + " " + arguments.substr(space + 1);
    return run_with_shim(quoted(TRIREME_CHECKPOINT_TOOL) + " " + command,
                         {.root = root(), .call = call, .what = fault}, folder_ / "log");
  }
  std::string root() const { return folder_ / "run"; }

 private:
  ScratchDirectory folder_;
};

/// What is left after a crash goes, and nothing else; then a save and a deletion work.
void expect_recovery(const Trials& trials, const Values& values) {
  clean_leftovers(trials.root());
  EXPECT_EQ(values_of(trials.root()), values);
  EXPECT_THAT(list_directory(trials.root()), Each(Not(HasSubstr("."))));
  EXPECT_EQ(trials.again("save 140 3").code, 0);
  EXPECT_EQ(trials.again("prune 1").code, 0);
  EXPECT_EQ(values_of(trials.root()), (Values{{140, 3}}));
}

/// Dies at each call of `arguments`; `allowed(values found)` is asked for each.
template <class Allowed>
void die_everywhere(const Trials& trials, const std::string& arguments, Allowed&& allowed) {
  const ShimRun whole = trials.run(arguments, 0, "");
  ASSERT_EQ(whole.code, 0) << whole.output;
  ASSERT_GE(whole.calls, 5);
  for (const char* fault : {"die_before", "die_half", "die_after"})
    for (long call = 1; call <= whole.calls; ++call) {
      SCOPED_TRACE(str(arguments, ", ", fault, " call ", call, " of ", whole.calls));
      ASSERT_EQ(trials.run(arguments, call, fault).code, died);
      const Values found = allowed(values_of(trials.root()));
      expect_recovery(trials, found);
    }
  ::testing::Test::RecordProperty("calls", static_cast<int>(whole.calls));
}

TEST(CheckpointCrash, AtAnyCallOfASaveLeavesWholeStepsOnly) {
  const Trials trials({80, 100}, On::disk);
  const Values before = {{80, 1}, {100, 1}}, after = {{80, 1}, {100, 1}, {120, 2}};
  die_everywhere(trials, "save 120 2", [&](const Values& found) {
    EXPECT_THAT(found, AnyOf(before, after));
    return found;
  });
}

TEST(CheckpointCrash, AtAnyCallOfASaveInPlaceOfAStepLeavesTheOldOrTheNew) {
  const Trials trials({80, 100});
  const Values before = {{80, 1}, {100, 1}}, after = {{80, 1}, {100, 2}};
  die_everywhere(trials, "save 100 2", [&](const Values& found) {
    EXPECT_THAT(found, AnyOf(before, after));
    return found;
  });
}

TEST(CheckpointCrash, WhereNamesCannotBeExchangedRecoveryBringsTheOldBack) {
  const Trials trials({80, 100});
  const Values before = {{80, 1}, {100, 1}}, after = {{80, 1}, {100, 2}}, between = {{80, 1}};
  die_everywhere(trials, "save 100 2 no-exchange", [&](const Values& found) {
    EXPECT_THAT(found, AnyOf(before, after, between));
    return found == between ? before : found;
  });
}

TEST(CheckpointCrash, AtAnyCallOfADeletionLeavesWholeStepsOnly) {
  const Trials trials({80, 100, 120});
  die_everywhere(trials, "prune 1", [&](const Values& found) {
    EXPECT_EQ(found.count(120), 1u);
    EXPECT_LE(found.size(), 3u);
    return found;
  });
}

TEST(CheckpointCrash, AtAnyCallOfASnapshotInMemoryLeavesTheOneBefore) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  const std::string root = folder / "snapshots";
  const auto run = [&](Index step, long call, const std::string& fault) {
    return run_with_shim(
        str(quoted(TRIREME_CHECKPOINT_TOOL), " snapshot ", quoted(root), " ", step),
        {.root = root, .call = call, .what = fault}, folder / "log");
  };
  const auto begin = [&] {
    std::filesystem::remove_all(root);
    make_snapshot(root, 10, 0);
    make_snapshot(root, 20, 1);
  };
  begin();
  const long calls = run(30, 0, "").calls;
  EXPECT_EQ(snapshots_in(root), (std::set<Index>{20, 30}));
  ASSERT_GE(calls, 8);
  for (const char* fault : {"die_before", "die_half", "die_after", "EIO", "ENOSPC"})
    for (long call = 1; call <= calls; ++call) {
      SCOPED_TRACE(str(fault, " call ", call, " of ", calls));
      begin();
      EXPECT_THAT(run(30, call, fault).code, AnyOf(Eq(died), Eq(failed), Eq(0)));
      const std::set<Index> found = snapshots_in(root);
      EXPECT_THAT(found,
                  AnyOf(std::set<Index>{10, 20}, std::set<Index>{20}, std::set<Index>{20, 30}));
      EXPECT_EQ(run(40, 0, "").code, 0);  // nothing that is left is in its way
      EXPECT_EQ(snapshots_in(root), (std::set<Index>{20, 40}));
    }
}

TEST(CheckpointCrash, NoErrorAtAnyCallMakesAnythingPartialVisible) {
  const Trials trials({80, 100});
  const ShimRun whole = trials.run("save 100 2", 0, "");
  const Values before = {{80, 1}, {100, 1}}, after = {{80, 1}, {100, 2}};
  for (const char* fault : {"ENOSPC", "EDQUOT", "EIO", "EROFS", "EIO+", "ENOSPC+"})
    for (long call = 1; call <= whole.calls; ++call) {
      SCOPED_TRACE(str(fault, " at call ", call, " of ", whole.calls));
      const ShimRun run = trials.run("save 100 2", call, fault);
      const Values found = values_of(trials.root());
      EXPECT_THAT(found, AnyOf(before, after));
      EXPECT_THAT(run.code, AnyOf(Eq(0), Eq(failed))) << run.output;
      // A disk on which everything fails from a call on may not take the new name back.
      const bool certain = fault[std::string(fault).size() - 1] != '+';
      if (run.code == 0 || certain) {
        EXPECT_EQ(found, run.code == 0 ? after : before) << run.output;
      }
      expect_recovery(trials, found);
    }
}

TEST(CheckpointCrash, TheNextSaveOfTheSameProcessWorksAfterAnError) {
  const Trials trials({80, 100});
  const ShimRun whole = trials.run("save 120 2", 0, "");
  for (const char* fault : {"ENOSPC", "EDQUOT", "EIO", "EROFS"})
    for (long call = 1; call <= whole.calls; ++call) {
      SCOPED_TRACE(str(fault, " at call ", call, " of ", whole.calls));
      const ShimRun run = trials.run("saves 120 2", call, fault);
      EXPECT_EQ(run.code, 0) << run.output;
      Values found = values_of(trials.root());
      EXPECT_EQ(found.erase(121), 1u);
      EXPECT_EQ(found.count(120), run.output.empty() ? 1u : 0u) << run.output;
    }
}

TEST(CheckpointCrash, InterruptedAndShortCallsAreContinued) {
  const Trials trials({80, 100});
  const ShimRun whole = trials.run("save 120 2", 0, "");
  for (const char* fault : {"EINTR", "short", "EINTR+", "short+"})
    for (long call = 1; call <= whole.calls; ++call) {
      SCOPED_TRACE(str(fault, " at call ", call, " of ", whole.calls));
      const ShimRun run = trials.run("save 120 2", call, fault);
      EXPECT_EQ(run.code, 0) << run.output;
      EXPECT_EQ(values_of(trials.root()), (Values{{80, 1}, {100, 1}, {120, 2}}));
    }
}

}  // namespace
}  // namespace trireme::test
