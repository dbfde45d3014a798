// Which step --use-checkpoint-args reads.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/job/program_options.h"
#include "tests/support/host_stream.h"
#include "tests/support/recorded_problems.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme::job {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// A directory with steps 2 and 4 of a toy.
class SavedOptionsOf : public testing::Test {
 protected:
  SavedOptionsOf() {
    for (const Index step : {2, 4}) test::commit_toy(run(), step, {}, {{}, static_cast<int>(step)});
  }
  std::string run() const { return folder_ / "run"; }
  std::string manifest(Index step) const {
    return run() + "/" + step_name(step) + "/manifest.json";
  }
  std::optional<SavedOptions> read(const std::string& load, Index ckpt_step = -1) {
    CheckpointOptions options;
    options.load = load;
    options.ckpt_step = ckpt_step;
    return read_saved_options(options, problems_);
  }

  ScratchDirectory folder_;
  test::RecordedProblems problems_;
};

TEST_F(SavedOptionsOf, AreThoseOfTheNewestStepOrOfCkptStep) {
  EXPECT_THAT(read(run())->options, Contains(Pair("--tp", "4")));
  EXPECT_EQ(read(run())->origin, "step 4 of " + run());
  EXPECT_THAT(read(run(), 2)->options, Contains(Pair("--tp", "2")));
  EXPECT_THAT(problems_.all(), IsEmpty());
}

TEST_F(SavedOptionsOf, AreThoseOfTheStepBeforeWhereTheNewestIsDamagedAsLoadingWouldTakeIt) {
  test::flip_bit(manifest(4), 100);
  EXPECT_EQ(read(run())->origin, "step 2 of " + run());
  EXPECT_THAT(problems_.all(), IsEmpty());
}

TEST_F(SavedOptionsOf, ADamagedManifestIsOneProblemThatNamesIt) {
  for (const Index step : {2, 4}) test::flip_bit(manifest(step), 100);
  EXPECT_FALSE(read(run()));
  EXPECT_FALSE(read(run(), 2));
  EXPECT_THAT(problems_.all(),
              ElementsAre(AllOf(HasSubstr("no step can be read"), HasSubstr(manifest(4))),
                          AllOf(HasSubstr("no step can be read"), HasSubstr(manifest(2)))));
}

TEST_F(SavedOptionsOf, AStepThatIsNotThereIsAProblem) {
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_FALSE(read(folder_ / "empty"));
  EXPECT_FALSE(read(run(), 3));
  EXPECT_THAT(problems_.all(), ElementsAre(HasSubstr("has no checkpoint to take the model from"),
                                           HasSubstr("has no step 3 of --ckpt-step")));
}

TEST_F(SavedOptionsOf, AMissingDirectoryIsLeftToTheCheckOfLoad) {
  EXPECT_FALSE(read(folder_ / "missing"));
  EXPECT_THAT(problems_.all(), IsEmpty());
}

/// What each rank has got, and its problems.
struct OfRank {
  std::string origin;
  std::vector<std::string> problems;
  friend bool operator==(const OfRank&, const OfRank&) = default;
};
std::vector<OfRank> agree(const std::vector<CheckpointOptions>& options) {
  std::vector<OfRank> all(options.size());
  run_on_threads(MeshShape(static_cast<int>(options.size()), 1, 1), [&](Mesh& mesh) {
    HostStream stream;
    const auto rank = static_cast<std::size_t>(mesh.rank());
    test::RecordedProblems problems;
    const auto saved = agree_on_saved_options(
        {mesh, stream}, options[rank].use_checkpoint_args,
        [&](Problems& found) { return read_saved_options(options[rank], found); }, problems);
    mesh.world().barrier();  // all have done the same collectives
    all[rank] = {saved ? saved->origin + str(" ", saved->options.size()) : "", problems.all()};
  });
  return all;
}

TEST_F(SavedOptionsOf, AreThoseThatRank0ReadsOnAllRanks) {
  const std::string other = folder_ / "other";  // what the others would see
  test::commit_toy(other, 6, {}, {{}, 6});
  CheckpointOptions mine, theirs;
  mine.use_checkpoint_args = theirs.use_checkpoint_args = true;
  mine.load = run();
  theirs.load = other;
  const OfRank expected{str("step 4 of ", run(), " ", read(run())->options.size()), {}};
  EXPECT_THAT(agree({mine, theirs, theirs}), ElementsAre(expected, expected, expected));
  for (const Index step : {2, 4}) test::flip_bit(manifest(step), 100);
  const auto failed = agree({mine, theirs, theirs});
  EXPECT_THAT(failed[0].problems,
              ElementsAre(AllOf(HasSubstr("no step can be read"), HasSubstr(manifest(4)))));
  EXPECT_THAT(failed, ElementsAre(failed[0], failed[0], failed[0]));
}

TEST_F(SavedOptionsOf, AreTakenByRanksWithTheOptionOnly) {
  CheckpointOptions with, without;
  with.use_checkpoint_args = true;
  with.load = without.load = run();
  const std::vector<OfRank> first = agree({with, without});
  EXPECT_THAT(first[0].origin, HasSubstr("step 4"));
  EXPECT_EQ(first[1], OfRank());
  EXPECT_THAT(agree({without, with}), ElementsAre(OfRank(), OfRank()));
}

}  // namespace
}  // namespace trireme::job
