// Snapshots of steps that the run has abandoned, or has continued from, on nodes that come back.
#include <gmock/gmock.h>

#include "runtime/store/tiers/time_line.h"
#include "tests/checkpoint/memory_tier.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using namespace testing;

TEST_F(MemoryTier, OfATimeThatWasAbandonedIsNeitherLoadedNorKeptWhenItsNodesReturn) {
  const CheckpointJob job = attempt({{2, 1, 2, 1}});
  CheckpointJob back = job, back_without = job, anew = job;
  back.options.checkpoint.ckpt_step = 1;
  back_without.options.checkpoint.ckpt_step = 1;
  back_without.options.checkpoint.save_memory_interval = 0;
  anew.options.checkpoint.load_optimizer = false;
  for (const CheckpointJob& between : {back, back_without, anew}) {
    make_steps(job);
    const Absent nodes(directory());
    on_threads(between, [&](CheckpointRank& rank) {
      rank.load();
      EXPECT_EQ(rank.progress.step, 1);
    });
    nodes.return_to_the_job();
    EXPECT_NE(shard_of(0, 3), "");
    EXPECT_EQ(loaded_step(job), 1);
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(shard_of(rank, 3), "") << rank;
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(MemoryTier, ThatLaterJobsHaveContinuedIsLoadedWhenItsNodesReturn) {
  const CheckpointJob job = attempt({{2, 1, 2, 1}});
  make_steps(job);
  const Absent nodes(directory());
  EXPECT_EQ(loaded_step(job), 3);
  nodes.return_to_the_job();
  EXPECT_EQ(loaded_step(job), 3);
}

TEST_F(MemoryTier, IsNotLoadedWhereTheTimeLineIsMissingOrDamaged) {
  const CheckpointJob job = attempt({{1, 1, 2, 1}});
  const std::string line = folder_ / "run/" + std::string(store::time_line_name);
  for (const bool missing : {false, true}) {
    make_steps(job);
    missing ? (void)fs::remove(line) : flip_byte(line, 10);
    EXPECT_EQ(loaded_step(job), 1);
    EXPECT_EQ(store::read_time_line(folder_ / "run").value().parts().size(), 1u);
    fs::remove_all(folder_ / "run");
    store::remove_snapshots(directory());
  }
}

TEST_F(MemoryTier, IsNotAbandonedWhereTheTimeLineCannotBeRead) {
  const CheckpointJob job = attempt({{1, 1, 2, 1}});
  const std::string line = folder_ / "run/" + std::string(store::time_line_name);
  make_steps(job);
  fs::rename(line, folder_ / "kept");
  fs::create_directory(line);  // reading it fails, for root too
  EXPECT_THAT(message_of([&] { loaded_step(job); }),
              ::testing::HasSubstr("time-line.json: is a directory, but a file"));
  fs::remove(line);
  fs::rename(folder_ / "kept", line);
  EXPECT_EQ(loaded_step(job), 3);
}

}  // namespace
}  // namespace trireme
