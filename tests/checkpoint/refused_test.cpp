// Checkpoints that do not hold or belong to another job, and directories that are of no use.
#include <filesystem>
#include <fstream>
#include <mutex>

#include <gmock/gmock.h>

#include "trireme/options/problems.h"

#include "tests/checkpoint/checkpoint_ranks.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

/// What load() throws, the same on all ranks; "" when nothing.
template <class E>
std::string load_error(const CheckpointJob& job, const DataSource& source = NamedSource()) {
  std::mutex mutex;
  std::vector<std::string> messages;
  Gathered before, after;
  on_threads(job, [&](CheckpointRank& rank) {
    rank.add_state_to(before);
    std::string message;
    try {
      rank.load(source);
    } catch (const E& error) {
      message = error.what();
    }
    if (std::is_same_v<E, ConfigurationError>) rank.add_state_to(after);
    const std::lock_guard lock(mutex);
    messages.push_back(message);
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages.front());
  if (std::is_same_v<E, ConfigurationError> && !messages.front().empty()) {
    EXPECT_EQ(after.tensors(), before.tensors());  // nothing was loaded
  }
  return messages.front();
}

TEST(CheckpointerRefuses, EveryKindOfDifferenceIsListedAndNothingLoaded) {
  const ScratchDirectory folder;
  save_step_3({{2, 1, 1, 1}}, folder / "run");
  CheckpointJob job = loading_from(folder / "run", {{1, 1, 2, 1}});
  job.model = {{"--num-attention-heads", "2"}, {"--norm-epsilon", "1e-06"}};
  job.options.seed = 7;
  job.options.optimizer.kind = OptimizerOptions::Kind::sgd;
  job.blocks = 3;
  const std::string message = load_error<ConfigurationError>(job, NamedSource("0 to 50 of 50"));
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("--num-attention-heads is 2 here and 4 in the checkpoint"),
            HasSubstr("--norm-epsilon is 1e-06 here"), HasSubstr("--seed is 7 here and 1234"),
            HasSubstr("--optimizer is sgd here and adamw"),
            HasSubstr("data: train tokens is 0 to 50 of 50 here and 0 to 100 of 100"),
            HasSubstr("tensor parameters/block.3.out f32 (8, 8) of the checkpoint is not in this "
                      "model"),
            HasSubstr("optimizer's momentum is not in the checkpoint"),
            HasSubstr("optimizer's first_moment of the checkpoint has no use")));
  // 5 facts, 5 of the 8 tensors of a block and how many more there are, 3 states
  EXPECT_THAT(message, AllOf(HasSubstr(": 15 problems"), HasSubstr("and 3 more tensors differ")));
  EXPECT_THAT(message, Not(HasSubstr("rank")));
}

/// Flips one byte in the middle of a file.
void damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
  file.seekg(middle);
  const char byte = static_cast<char>(file.get());
  file.seekp(middle);
  file.put(static_cast<char>(byte ^ 0x10));
}

TEST(CheckpointerRefuses, DamageMakesItGoBackToTheStepBefore) {
  const ScratchDirectory folder;
  save_three(folder / "run");
  damage(folder / "run/step-000006/shard-00001.h5");
  fs::remove(folder / "run/step-000004/shard-00002.h5");
  const CheckpointJob job = loading_from(folder / "run", saving_to(folder / "run", {{1, 2, 1, 1}}));
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 2);
  });
  EXPECT_THAT(steps_in(folder / "run"), ElementsAre(2));  // the newer ones are set aside
}

TEST(CheckpointerRefuses, DamageThatOneRankSeesSendsAllBack) {
  const ScratchDirectory folder;
  const CheckpointJob stages{{1, 2, 1, 1}};
  on_threads(saving_to(folder / "run", stages), [&](CheckpointRank& rank) {
    for (const Index step : {2, 4}) {
      rank.train_to(step);
      EXPECT_TRUE(rank.save_and_wait());
    }
  });
  damage(folder / "run/step-000004/shard-00001.h5");  // the second stage's, which reads it alone
  on_threads(loading_from(folder / "run", stages), [&](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 2);
  });
}

TEST(CheckpointerRefuses, ADamagedStepThatWasAskedForStopsTheJobAndNamesFileAndTensor) {
  const ScratchDirectory folder;
  save_three(folder / "run");
  damage(folder / "run/step-000006/shard-00001.h5");
  CheckpointJob job = loading_from(folder / "run", {{1, 2, 1, 1}});
  job.options.checkpoint.ckpt_step = 6;
  EXPECT_THAT(load_error<JobError>(job),
              AllOf(HasSubstr("step 6"), HasSubstr("shard-00001.h5: block 0"),
                    HasSubstr("tensors optimizer/first_moment/block.0.out")));
  job.options.checkpoint.ckpt_step = 4;
  EXPECT_EQ(load_error<JobError>(job), "");
  job.options.checkpoint.ckpt_step = 5;
  EXPECT_THAT(load_error<ConfigurationError>(job),
              AllOf(HasSubstr("--ckpt-step 5"), HasSubstr("6, 4, 2")));
}

TEST(CheckpointerRefuses, WhereNoStepHoldsTheReasonsOfAllAreListed) {
  const ScratchDirectory folder;
  save_three(folder / "run");
  for (const char* step : {"2", "4", "6"})
    damage(folder / "run/step-00000" + step +
           (*step == '4' ? "/manifest.json" : "/shard-00000.h5"));
  EXPECT_THAT(load_error<JobError>(loading_from(folder / "run", {{2, 1, 1, 1}})),
              AllOf(HasSubstr("- step 6: "), HasSubstr("- step 4: "), HasSubstr("- step 2: "),
                    HasSubstr("manifest")));
}

TEST(CheckpointerRefuses, WithoutACheckpointItStartsFromScratchOrSaysWhyNot) {
  const ScratchDirectory folder;
  const std::string nowhere = folder / "nowhere";
  EXPECT_THAT(load_error<ConfigurationError>(loading_from(nowhere)), HasSubstr(nowhere));
  EXPECT_FALSE(fs::exists(nowhere));
  const CheckpointJob both = loading_from(nowhere + "/./", saving_to(nowhere));
  on_threads(both, [](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 0);
  });
  CheckpointJob exits = both;
  exits.options.checkpoint.exit_on_missing_checkpoint = true;
  EXPECT_THAT(load_error<ConfigurationError>(exits), HasSubstr("--exit-on-missing-checkpoint"));
}

TEST(CheckpointerRefuses, ADirectoryThatCannotBeMadeIsAConfigurationError) {
  const ScratchDirectory folder;
  std::ofstream(folder / "file") << "in the way";
  const CheckpointJob job = saving_to(folder / "file/run", {{2, 1, 1, 1}});
  run_on_threads(job.layout.shape(),
                 [&](Mesh& mesh) { EXPECT_THROW(CheckpointRank(mesh, job), ConfigurationError); });
}

TEST(CheckpointerRefuses, FinetuningIntoTheDirectoryThatIsLoadedIsAConfigurationError) {
  const ScratchDirectory folder;
  save_step_3({}, folder / "run");
  CheckpointJob job = loading_from(folder / "run", saving_to(folder / "run"));
  job.options.checkpoint.finetune = true;
  run_on_threads(job.layout.shape(),
                 [&](Mesh& mesh) { EXPECT_THROW(CheckpointRank(mesh, job), ConfigurationError); });
  EXPECT_THAT(steps_in(folder / "run"), ElementsAre(3));
}

}  // namespace
}  // namespace trireme
