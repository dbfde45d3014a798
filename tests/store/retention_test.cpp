// Retention: which steps go, that a step which cannot be read protects the others, and what is
// cleaned after a crash.
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/inspect/inspect.h"
#include "runtime/store/steps.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string run_with_steps(const ScratchDirectory& folder, const std::vector<Index>& steps) {
  const std::string root = folder / "run";
  for (const Index step : steps) commit_toy(root, step, {});
  return root;
}

TEST(Retention, KeepsTheNewestAndTheMultiples) {
  const std::vector<Index> steps = {120, 100, 80, 60, 40, 20, 0};
  EXPECT_THAT(steps_to_delete(steps, {}), IsEmpty());
  EXPECT_THAT(steps_to_delete(steps, {.retain_interval = 60}), IsEmpty());
  EXPECT_THAT(steps_to_delete(steps, {.keep_last = 1}), ElementsAre(100, 80, 60, 40, 20, 0));
  EXPECT_THAT(steps_to_delete(steps, {.keep_last = 2, .retain_interval = 60}),
              ElementsAre(80, 40, 20));
  EXPECT_THAT(steps_to_delete(steps, {.keep_last = 9}), IsEmpty());
  EXPECT_THAT(steps_to_delete({}, {.keep_last = 1}), IsEmpty());
}

TEST(Retention, KeepsTheNewestThatWasVerifiedClean) {
  const std::vector<Index> steps = {120, 100, 80, 60};
  EXPECT_THAT(steps_to_delete(steps, {.keep_last = 1}, {80}), ElementsAre(100, 60));
  EXPECT_THAT(steps_to_delete(steps, {.keep_last = 2}, {120}), ElementsAre(80, 60));
  EXPECT_THAT(steps_to_delete(steps, {}, {80}), IsEmpty());
}

TEST(Retention, PrunesAVerifiedStepOnceThereIsANewerOne) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  const auto commit = [&](Index step, const char* verified) {
    Manifest manifest = write_toy(root, step, {}, {});
    manifest.verified = verified;
    commit_step(root, manifest);
  };
  commit(20, "replicas");
  commit(40, "replicas");
  commit(60, "");
  commit(80, "");
  EXPECT_THAT(prune_steps(root, {.keep_last = 1}), ElementsAre(60, 20));
  commit(100, "");
  EXPECT_THAT(prune_steps(root, {.keep_last = 1}), ElementsAre(80));
  commit(120, "replicas");
  EXPECT_THAT(prune_steps(root, {.keep_last = 1}), ElementsAre(100, 40));
  flip_bit(root + "/step-000120/manifest.json", 100);
  commit(140, "replicas");
  EXPECT_THAT(prune_steps(root, {.keep_last = 1}), ElementsAre(120));
}

TEST(Retention, KeepsTheNewestStepUpToOneThatWasComputedTwice) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  const auto commit = [&](Index step, Index verified_step) {
    Manifest manifest = write_toy(root, step, {}, {});
    manifest.verified = "replicas";
    manifest.verified_step = verified_step;
    commit_step(root, manifest);
  };
  commit(20, -1);
  commit(40, -1);
  commit(60, 45);
  commit(80, 45);
  const Retention retention{.keep_last = 1};
  EXPECT_THAT(plan_prune(root, retention).deleted, ElementsAre(60, 20)) << "40 is before 45";
  EXPECT_THAT(prune_steps(root, retention), ElementsAre(60, 20));
  commit(100, 90);
  EXPECT_THAT(plan_prune(root, retention).deleted, ElementsAre(40));
  EXPECT_THAT(prune_steps(root, retention), ElementsAre(40));
  commit(120, 110);
  flip_bit(root + "/step-000100/manifest.json", 100);
  EXPECT_THAT(prune_steps(root, retention), ElementsAre(100)) << "it cannot be read";
  commit(140, 140);
  EXPECT_THAT(prune_steps(root, retention), ElementsAre(120, 80));
}

/// Which manifests are opened while it exists.
class OpenedManifests {
 public:
  OpenedManifests(const std::string& root, const std::vector<Index>& steps) {
    for (const Index step : steps) {
      const std::string path = str(root, '/', step_name(step), '/', manifest_name);
      step_of_[::inotify_add_watch(watch_, path.c_str(), IN_OPEN)] = step;
    }
  }
  ~OpenedManifests() { ::close(watch_); }
  OpenedManifests(const OpenedManifests&) = delete;
  OpenedManifests& operator=(const OpenedManifests&) = delete;
  std::set<Index> steps() {
    std::set<Index> opened;
    inotify_event event;  // of a file, so without a name
    while (::read(watch_, &event, sizeof event) == sizeof event)
      if ((event.mask & IN_OPEN) != 0) opened.insert(step_of_.at(event.wd));
    return opened;
  }

 private:
  int watch_ = ::inotify_init1(IN_NONBLOCK);
  std::map<int, Index> step_of_;
};

TEST(Retention, ReadsOnlyManifestsThatDecideWhatGoes) {
  const ScratchDirectory folder;
  const std::string root = run_with_steps(folder, {10, 20, 30, 40, 50, 60, 70});
  const auto commit_verified = [&](Index step) {
    Manifest manifest = write_toy(root, step, {}, {});
    manifest.verified = "step";
    commit_step(root, manifest);
  };
  const Retention retention{.keep_last = 2, .retain_interval = 20};
  {
    OpenedManifests opened(root, {10, 20, 30, 40, 50, 60, 70});
    EXPECT_THAT(prune_steps(root, retention), ElementsAre(50, 30, 10));
    EXPECT_THAT(opened.steps(), ElementsAre(10, 30, 50, 60, 70));
  }
  commit_verified(75);
  commit_verified(80);
  {
    OpenedManifests opened(root, {20, 40, 60, 70, 75, 80});
    EXPECT_THAT(prune_steps(root, retention), ElementsAre(70));
    EXPECT_THAT(opened.steps(), ElementsAre(75, 80)) << "the newest ones are verified";
  }
  commit_toy(root, 81, {});
  commit_toy(root, 82, {});
  {
    OpenedManifests opened(root, {20, 40, 60, 75, 80, 81, 82});
    EXPECT_THAT(prune_steps(root, retention), ElementsAre(75)) << "80 is newer, and stays";
    EXPECT_THAT(opened.steps(), ElementsAre(75, 80, 81, 82));
  }
}

TEST(Retention, PrunesTheDirectory) {
  const ScratchDirectory folder;
  const std::string root = run_with_steps(folder, {20, 40, 60, 80});
  EXPECT_THAT(prune_steps(root, {}), IsEmpty());
  EXPECT_THAT(prune_steps(root, {.keep_last = 2, .retain_interval = 40}), ElementsAre(20));
  EXPECT_THAT(prune_steps(root, {.keep_last = 1}), ElementsAre(60, 40));
  EXPECT_THAT(list_directory(root), ElementsAre("step-000080"));
  EXPECT_EQ(read_manifest(root + "/step-000080").step, 80);
  EXPECT_THROW(delete_step(root, 60), Error);
}

TEST(Retention, CountsOnlyStepsThatCanBeReadAndLeavesTheOthersAlone) {
  const ScratchDirectory folder;
  const std::string root = run_with_steps(folder, {20, 40, 60, 80});
  remove_file(root + "/step-000080/shard-00000.h5");
  flip_bit(root + "/step-000060/manifest.json", 100);
  EXPECT_THAT(prune_steps(root, {.keep_last = 1}), ElementsAre(20));
  EXPECT_THAT(list_directory(root), ElementsAre("step-000040", "step-000060", "step-000080"));
}

TEST(Leftovers, OfSavesAndDeletionsGoAndNothingElse) {
  const ScratchDirectory folder;
  const std::string root = run_with_steps(folder, {20});
  write_toy(root, 40, {}, {});
  rename_path(root + "/step-000040.tmp-toy", root + "/step-000040.tmp-dead");
  for (const char* name : {"step-000010.deleted-retention", "step-000060.tmp-", "step-000060.tmp",
                           "step-000060.aside-a", "step-60.tmp-a", "notes.tmp-a"})
    make_directory(root + "/" + name);
  write_whole(root + "/lock.away-1", "");
  EXPECT_THAT(clean_leftovers(root),
              ElementsAre("step-000010.deleted-retention", "step-000040.tmp-dead"));
  EXPECT_THAT(list_directory(root),
              ElementsAre("notes.tmp-a", "step-000020", "step-000060.aside-a", "step-000060.tmp",
                          "step-000060.tmp-", "step-60.tmp-a"));
  EXPECT_THAT(clean_leftovers(folder / "nowhere"), IsEmpty());
}

TEST(Leftovers, OfAnExchangeInTwoStepsGetTheirNameBack) {
  const ScratchDirectory folder;
  const std::string root = run_with_steps(folder, {20, 40});
  rename_path(root + "/step-000040", root + "/step-000040.replaced-dead");
  EXPECT_THAT(clean_leftovers(root), IsEmpty());
  EXPECT_EQ(read_manifest(root + "/step-000040").step, 40);
  make_directory(root + "/step-000040.replaced-dead");
  EXPECT_THAT(clean_leftovers(root), ElementsAre("step-000040.replaced-dead"));
  EXPECT_THAT(list_directory(root), ElementsAre("step-000020", "step-000040"));
}

}  // namespace
}  // namespace trireme::test
