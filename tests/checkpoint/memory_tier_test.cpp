// Snapshots in memory on ranks as threads: what they hold, which of them is loaded, and what is
// done when one cannot be.
#include "tests/checkpoint/memory_tier.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "tests/support/message_of.h"

namespace trireme {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(MemoryTier, HoldsAllThatARankNeedsToResumeOnEveryLayout) {
  std::vector<CheckpointJob> jobs;
  for (const Layout& layout : layouts())
    for (const Update update : updates()) jobs.push_back({layout, update});
  for (const Layout& layout : mixed_layouts())
    for (const Update update : updates()) jobs.push_back(in_bf16({layout, update}));
  for (const CheckpointJob& job : jobs) {
    SCOPED_TRACE(describe(job.layout) + (job.options.bf16 ? " in bf16" : ""));
    fs::remove_all(folder_ / "run");
    Gathered at_call, loaded, straight, resumed;
    on_threads(attempt(job), [&](CheckpointRank& rank) {
      rank.load();
      rank.train_to(2);
      rank.add_state_to(at_call);
      rank.memory().start(rank.progress);
      rank.train_to(4);
      rank.add_state_to(straight);
    });
    on_threads(attempt(job), [&](CheckpointRank& rank) {
      rank.load();
      EXPECT_EQ(rank.progress.step, 2);
      EXPECT_EQ(rank.progress.samples, 16);
      EXPECT_EQ(rank.steps.optimizer->updates(), 2);
      EXPECT_EQ(rank.padding(), 0);
      EXPECT_EQ(rank.memory().newest(), 2);
      rank.add_state_to(loaded);
      rank.train_to(4);
      rank.add_state_to(resumed);
    });
    EXPECT_EQ(loaded.disagreements(), 0);
    EXPECT_EQ(loaded.tensors(), at_call.tensors());
    EXPECT_EQ(resumed.tensors(), straight.tensors());
    store::remove_snapshots(directory());
  }
}

TEST_F(MemoryTier, OfUnequalSlicesIsLoadedByTheSameCutAndAnotherTakesTheDurableStep) {
  for (const bool bf16 : {false, true}) {
    CheckpointJob job = attempt({{3, 1, 1, 1}, Update::sharded});
    job.options.bf16 = bf16;
    job.shares = {2, 0, 1};
    make_steps(job);
    EXPECT_EQ(loaded_step(job), 3);
    for (const std::vector<Index>& other : {std::vector<Index>{2, 1, 1}, {}}) {
      CheckpointJob cut = job;
      cut.shares = other;
      EXPECT_EQ(loaded_step(cut), 1);
      fs::remove_all(folder_ / "run");
      store::remove_snapshots(directory());
      make_steps(job);
    }
    fs::remove_all(folder_ / "run");
    store::remove_snapshots(directory());
  }
}

TEST_F(MemoryTier, IsLoadedWhereItIsNewerThanTheNewestDurableStep) {
  const CheckpointJob job = attempt({{2, 1, 2, 1}});
  make_steps(job);
  EXPECT_EQ(loaded_step(job), 3);
  EXPECT_EQ(loaded_step(job), 3);
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    rank.train_to(5);
    EXPECT_TRUE(rank.save_and_wait());
  });
  EXPECT_EQ(loaded_step(job), 5);
}

TEST_F(MemoryTier, IsLoadedWhereItsJobLeftOutSamplesThatTheDurableStepBeforeDidNot) {
  const CheckpointJob before = attempt({{2, 1, 1, 1}});
  CheckpointJob job = before;
  job.options.checkpoint.skip_samples = {"8-9"};
  on_threads(before, [&](CheckpointRank& rank) {
    rank.load();
    rank.train_to(1);
    EXPECT_TRUE(rank.save_and_wait());
  });
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 1);
    rank.train_to(2);
    snapshot(rank);
  });
  EXPECT_EQ(loaded_step(job), 2);
  EXPECT_EQ(loaded_step(before), 1);
}

TEST_F(MemoryTier, GoesBackToTheStepBeforeWhereAnyBlockOfAnyRankIsDamaged) {
  const CheckpointJob job = attempt({{2, 2, 1, 1}});
  for (const int damaged : {0, 3}) {
    make_steps(job);
    const std::string newest = shard_of(damaged, 3), before = shard_of(damaged, 2);
    ASSERT_NE(newest, before);
    flip_byte(newest, static_cast<Index>(fs::file_size(newest)) / 2);
    EXPECT_EQ(loaded_step(job), 2);
    EXPECT_EQ(shard_of(0, 3), "");  // it is forgotten: the run has another step 3 now
    flip_byte(before, static_cast<Index>(fs::file_size(before)) / 2);
    EXPECT_EQ(loaded_step(job), 1);
    EXPECT_EQ(shard_of(0, 2), "");
  }
}

TEST_F(MemoryTier, GoesBackToTheStepBeforeWhereARankHasNoSnapshotOrAShorterOne) {
  const CheckpointJob job = attempt({{1, 1, 2, 1}});
  make_steps(job);
  fs::resize_file(shard_of(1, 3), 100);
  EXPECT_EQ(loaded_step(job), 2);
  fs::remove(shard_of(0, 2));
  EXPECT_EQ(loaded_step(job), 1);
  make_steps(job);
  fs::remove(fs::path(shard_of(1, 3)).replace_extension(".json"));
  EXPECT_EQ(loaded_step(job), 2);
}

TEST_F(MemoryTier, IsEnoughForAJobThatNeedsACheckpoint) {
  const CheckpointJob any = attempt({{1, 1, 2, 1}});
  CheckpointJob job = any;
  job.options.checkpoint.exit_on_missing_checkpoint = true;
  EXPECT_THAT(message_of([&] { loaded_step(job); }), HasSubstr("has no checkpoint"));
  make_steps(any, false);
  EXPECT_EQ(loaded_step(job), 3);  // and forgets step 2
  const std::string file = shard_of(0, 3);
  flip_byte(file, static_cast<Index>(fs::file_size(file)) / 2);
  EXPECT_THAT(message_of([&] { loaded_step(job); }), HasSubstr("no step can be loaded"));
  EXPECT_EQ(loaded_step(any), 0);  // as without snapshots
  EXPECT_EQ(shard_of(0, 3), "");
}

TEST_F(MemoryTier, LeavesNoMomentsBehindWhereItIsDamagedAndNoStepIsDurable) {
  const CheckpointJob job = attempt({{2, 1, 1, 1}});
  make_steps(job, false);
  for (const Index step : {2, 3}) {
    const std::string file = shard_of(1, step);  // rank 0 reads all of its own
    flip_byte(file, static_cast<Index>(fs::file_size(file)) / 2);
  }
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 0);
    rank.context.stream().synchronize();
    const Index count = rank.steps.model.flat->state_count();
    EXPECT_FALSE(rank.steps.optimizer->state_tensors().empty());
    for (const Optimizer::StateTensor& tensor : rank.steps.optimizer->state_tensors())
      EXPECT_TRUE(std::all_of(tensor.data, tensor.data + count, [](float x) { return x == 0; }))
          << tensor.name;
  });
}

TEST_F(MemoryTier, IsCompleteWithoutAVoteWhereAllRanksHaveIt) {
  const CheckpointJob job = attempt({{2, 1, 1, 1}});
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    rank.train_to(2);
    rank.memory().start(rank.progress);
  });
  EXPECT_EQ(fs::path(shard_of(0, 2)).filename(), "rank-00000-a.h5");
  EXPECT_TRUE(fs::exists(directory() + "/rank-00000-a.unvoted"));
  EXPECT_EQ(loaded_step(job), 2);
  EXPECT_TRUE(fs::exists(directory() + "/rank-00000-a.json"));
}

TEST_F(MemoryTier, OverwritesASlotOnlyWhenTheOtherOneIsComplete) {
  const CheckpointJob job = attempt({{2, 1, 1, 1}});
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    rank.train_to(1);
    snapshot(rank);
    const std::string first = shard_of(rank.context.host().rank(), 1);
    rank.context.host().world().barrier();
    for (const Index step : {2, 3, 4}) {  // another rank could not write its own
      rank.train_to(step);
      rank.memory().start(rank.progress);
      rank.memory().settle(1e9);
      EXPECT_EQ(shard_of(rank.context.host().rank(), 1), first);
      EXPECT_EQ(rank.memory().newest(), 1);
    }
    rank.train_to(5);
    rank.memory().start(rank.progress);
    rank.memory().settle(1);  // another rank is not ready yet
    rank.memory().start({.step = 6});
    EXPECT_NE(shard_of(rank.context.host().rank(), 5), "");
    rank.memory().settle(0);
    EXPECT_EQ(rank.memory().newest(), 5);
  });
}

TEST_F(MemoryTier, IsGivenUpOnlyWhenNoRankIsBusyAnyMore) {
  on_threads(attempt({{2, 1, 1, 1}}), [&](CheckpointRank& rank) {
    rank.load();
    rank.train_to(1);
    rank.memory().start(rank.progress);
    rank.memory().settle(1e9 + 1);     // one rank has failed, one still copies
    rank.memory().start({.step = 2});  // not yet
    EXPECT_NE(shard_of(rank.context.host().rank(), 1), "");
    rank.memory().settle(2e9);
    EXPECT_EQ(rank.memory().newest(), -1);
    rank.train_to(3);
    snapshot(rank);
  });
}

TEST_F(MemoryTier, KeepsTheNewestStepThatHasCopiesWhereThoseOfALaterOneFail) {
  CheckpointJob job = attempt({{2, 1, 1, 1}});
  job.options.checkpoint.save_memory_partner = true;
  on_threads(job, [&](CheckpointRank& rank) {
    const int me = rank.context.host().rank();
    rank.load();
    rank.train_to(1);
    snapshot(rank);
    rank.train_to(2);
    rank.memory().start(rank.progress);
    rank.memory().settle(0);
    EXPECT_EQ(rank.memory().newest(), 2);
    rank.partner().settle(1e9);  // another rank cannot take its copies
    rank.train_to(3);
    rank.memory().start(rank.progress);
    EXPECT_NE(shard_of(me, 1), "");
    EXPECT_EQ(shard_of(me, 2), "");
    EXPECT_NE(shard_of(me, 3), "");
  });
}

TEST_F(MemoryTier, OfAnotherLayoutJobOrRunIsNotLoadedAndForgotten) {
  const CheckpointJob job = attempt({{2, 1, 2, 1}});
  std::vector<CheckpointJob> others(3, job);
  others[0].layout = {1, 1, 2, 1};
  others[1].layout = {1, 2, 2, 1};
  others[2].options.checkpoint.ckpt_step = 1;
  for (const CheckpointJob& other : others) {
    make_steps(job);
    EXPECT_EQ(loaded_step(other), 1);
    EXPECT_EQ(loaded_step(job), 1) << "what is older than a newer attempt was loaded";
  }
  make_steps(job);
  CheckpointJob other = job;
  other.options.seed = 4321;
  fs::remove_all(folder_ / "run");  // it would refuse the durable step
  EXPECT_EQ(loaded_step(other), 0);
  make_steps(job);
  ::setenv("TRIREME_RUN_KEY", (key_ + "-other").c_str(), 1);
  EXPECT_EQ(loaded_step(job), 1);
  store::remove_snapshots(store::snapshot_directory(key_ + "-other"));
}

TEST_F(MemoryTier, OfRanksThatAreNoMoreIsRemovedAtTheNextStart) {
  make_steps(attempt({{2, 1, 2, 1}}));
  EXPECT_NE(shard_of(3, 3), "");
  EXPECT_EQ(loaded_step(attempt({{1, 1, 1, 1}})), 1);
  EXPECT_THAT(list_directory(directory()), ElementsAre("rank-00000-a.h5", "rank-00000-b.h5"));
}

TEST_F(MemoryTier, IsRemovedWithItsDirectory) {
  make_steps(attempt({{2, 1, 1, 1}}));
  on_threads(attempt({{2, 1, 1, 1}}), [&](CheckpointRank& rank) {
    rank.load();
    rank.context.host().world().barrier();
    rank.checkpointer.end_snapshots(true);
  });
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(MemoryTier, NeedsASupervisor) {
  ::unsetenv("TRIREME_RUN_KEY"), ::unsetenv("TRIREME_ATTEMPT");
  EXPECT_THAT(
      message_of([&] { loaded_step(attempt()); }),
      HasSubstr("--save-memory-interval 1 needs a supervisor, which says whose snapshots are "
                "in memory: start the job with `trireme run`, or leave the option out"));
}

}  // namespace
}  // namespace trireme
