// Steps: what a commit makes of a directory, in each state it may find, and what is refused when it
// is read.
#include "runtime/store/steps.h"

#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/read/reader.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Index> numbers(const std::string& root) {
  std::vector<Index> out;
  for (const CommittedStep& step : list_steps(root)) out.push_back(step.step);
  return out;
}

/// A state that distinguishes steps.
ToyState state_of(float value) {
  ToyState state;
  state["parameters/h.0.bias"].at<float>(0) = value;
  return state;
}

float value_of(const std::string& directory) {
  float value[7] = {};
  const Manifest manifest = read_manifest(directory);
  EXPECT_THAT(verify_step(directory, manifest, 1), IsEmpty());
  read_boxes(directory, manifest, {{"parameters/h.0.bias", DType::f32, {7}, {{0}, {7}}, value}}, 1);
  return value[0];
}

TEST(Steps, AreListedNewestFirstAndOthersNamesLeftOut) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  EXPECT_THAT(list_steps(root), IsEmpty());
  make_directory(root);
  for (const char* name :
       {"step-000120", "step-000003", "step-1234567", "step-000120.tmp-a", "step-000007.aside-a",
        "step-7", "step-0000007", "step-00000x", "step-", "Step-000001", "step-000001 ",
        "step--00001", "step-99999999999999999999", "other"})
    make_directory(root + "/" + name);
  EXPECT_THAT(numbers(root), ElementsAre(1234567, 120, 3));
  EXPECT_EQ(list_steps(root)[1].path, root + "/step-000120");
}

TEST(Steps, AreCommittedWholeUnderTheirName) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  const Manifest manifest = write_toy(root, 120, state_of(1), {ToyLayout::Cut::rows, 3});
  EXPECT_THAT(numbers(root), IsEmpty());
  commit_step(root, manifest);
  EXPECT_THAT(list_directory(root), ElementsAre("step-000120"));
  EXPECT_EQ(to_text(read_manifest(root + "/step-000120")), to_text(manifest));
  EXPECT_EQ(value_of(root + "/step-000120"), 1);
}

TEST(Steps, OfTheSameNumberGiveWay) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  commit_toy(root, 100, state_of(1));
  commit_toy(root, 120, state_of(1));
  commit_toy(root, 120, state_of(2), {ToyLayout::Cut::columns, 2});
  EXPECT_THAT(list_directory(root), ElementsAre("step-000100", "step-000120"));
  EXPECT_EQ(value_of(root + "/step-000120"), 2);
  EXPECT_EQ(value_of(root + "/step-000100"), 1);
}

TEST(Steps, ThatAreNotWholeAreNotCommitted) {
  const ScratchDirectory folder;
  const std::string root = folder / "run", unfinished = root + "/step-000120.tmp-toy/";
  const auto refused = [&](const std::function<void()>& spoil) {
    const Manifest manifest = write_toy(root, 120, state_of(2), {ToyLayout::Cut::rows, 2});
    spoil();
    const std::string message = message_of([&] { commit_step(root, manifest); });
    discard_step(root, 120, manifest.run);
    return message;
  };
  commit_toy(root, 120, state_of(1));
  EXPECT_THAT(refused([&] { remove_file(unfinished + "shard-00001.h5"); }),
              HasSubstr(unfinished + "shard-00001.h5: is missing (tensor"));
  EXPECT_THAT(refused([&] { std::filesystem::resize_file(unfinished + "checkpoint.h5", 1000); }),
              HasSubstr(unfinished + "checkpoint.h5: has 1000 bytes instead of "));
  EXPECT_THAT(refused([&] { write_whole(unfinished + "manifest.json", "{}"); }),
              HasSubstr("File exists"));
  EXPECT_THAT(list_directory(root), ElementsAre("step-000120"));
  EXPECT_EQ(value_of(root + "/step-000120"), 1);
}

TEST(Steps, AreDiscardedWhateverIsInThem) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  discard_step(root, 120, "toy");
  write_toy(root, 120, {}, {});
  make_directory(root + "/step-000120.tmp-toy/directory");
  write_whole(root + "/step-000120.tmp-toy/directory/file", "x");
  discard_step(root, 120, "toy");
  EXPECT_THAT(list_directory(root), IsEmpty());
  EXPECT_THAT(message_of([&] { discard_step(root, 120, "a/b"); }),
              HasSubstr("\"a/b\" cannot be the id of a run"));
}

TEST(Steps, OfAnotherNumberOrWithoutManifestAreNotRead) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  commit_toy(root, 120, {});
  rename_path(root + "/step-000120", root + "/step-000140");
  EXPECT_THAT(message_of([&] { read_manifest(root + "/step-000140"); }),
              HasSubstr("manifest.json: is of step 120"));
  rename_path(root + "/step-000140", root + "/elsewhere");
  EXPECT_EQ(read_manifest(root + "/elsewhere").step, 120);
  remove_file(root + "/elsewhere/manifest.json");
  EXPECT_THAT(message_of([&] { read_manifest(root + "/elsewhere"); }),
              HasSubstr("elsewhere/manifest.json: open: No such file"));
  write_whole(root + "/elsewhere/manifest.json", "{}\n{}\n");
  EXPECT_THAT(message_of([&] { read_manifest(root + "/elsewhere"); }),
              HasSubstr("manifest.json: the manifest is damaged"));
}

TEST(Steps, NewerThanOneThatIsGoneBackToAreSetAside) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  for (const Index step : {80, 100, 120}) commit_toy(root, step, {});
  EXPECT_THAT(set_aside_newer(root, 80, "back"),
              ElementsAre("step-000120.aside-back", "step-000100.aside-back"));
  EXPECT_THAT(numbers(root), ElementsAre(80));
  EXPECT_THAT(clean_leftovers(root), IsEmpty());
  EXPECT_EQ(read_manifest(root + "/step-000120.aside-back").step, 120);
  EXPECT_THAT(set_aside_newer(root, 80, "back"), IsEmpty());
  EXPECT_EQ(describe_set_aside("mine", {"step-9.aside-a"}), "set aside mine/step-9.aside-a");
  EXPECT_EQ(describe_set_aside("mine", {"step-9.aside-a", "step-5.aside-a", "step-2.aside-a"}),
            "set aside 3 checkpoints of mine, step-2.aside-a to step-9.aside-a");
}

}  // namespace
}  // namespace trireme::test
