// Retention: which steps go, that a step which cannot be read protects the others, and what is
// cleaned after a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
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
  EXPECT_THAT(steps_to_delete(steps, {.keep_last = 1}, 80), ElementsAre(100, 60));
  EXPECT_THAT(steps_to_delete(steps, {.keep_last = 2}, 120), ElementsAre(80, 60));
  EXPECT_THAT(steps_to_delete(steps, {}, 80), IsEmpty());
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
