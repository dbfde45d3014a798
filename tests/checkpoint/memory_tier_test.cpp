// Snapshots in memory on ranks as threads: what they hold, which of them is loaded, and what is
// done when one cannot be.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "runtime/checkpoint/partner_copies.h"
#include "runtime/store/file.h"
#include "runtime/store/tiers/slots.h"
#include "tests/checkpoint/checkpoint_ranks.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

double end_step(CheckpointRank& rank) {
  double sum = rank.checkpointer.snapshot_vote();
  rank.context.host().all_reduce({&sum, 1, DType::f64}, Reduction::sum);
  rank.checkpointer.take_snapshot_vote(sum);
  return sum;
}

/// A snapshot that all ranks have voted for, with its copies.
void snapshot(CheckpointRank& rank) {
  rank.checkpointer.save_snapshot(rank.progress);
  end_step(rank);
  EXPECT_EQ(rank.checkpointer.last_snapshot(), rank.progress.step);
  while (end_step(rank) > 0) rank.checkpointer.poll();
}

/// A supervised run of which the tests are attempts.
class MemoryTier : public ::testing::Test {
 protected:
  MemoryTier() {
    ::setenv("TRIREME_RUN_KEY", key_.c_str(), 1), ::setenv("TRIREME_ATTEMPT", "1", 1);
  }
  ~MemoryTier() override {
    ::unsetenv("TRIREME_RUN_KEY"), ::unsetenv("TRIREME_ATTEMPT");
    store::remove_snapshots(directory());
  }
  std::string directory() const { return store::snapshot_directory(key_); }
  /// The same job again and again.
  CheckpointJob attempt(CheckpointJob job = {}) const {
    job.options.checkpoint.save_memory_interval = 1;
    return loading_from(folder_ / "run", saving_to(folder_ / "run", std::move(job)));
  }
  /// Which step the next attempt loads.
  Index loaded_step(const CheckpointJob& job) const {
    Index step = -1;
    on_threads(job, [&](CheckpointRank& rank) {
      rank.load();
      if (rank.context.host().rank() == 0) step = rank.progress.step;
    });
    return step;
  }
  /// A durable step 1, snapshots of steps 2 and 3.
  void make_steps(const CheckpointJob& job) const {
    on_threads(job, [&](CheckpointRank& rank) {
      rank.load();
      rank.train_to(1);
      EXPECT_TRUE(rank.save_and_wait());
      for (const Index step : {2, 3}) {
        rank.train_to(step);
        snapshot(rank);
      }
    });
  }
  /// Of rank `rank`, the file with what it has of `step`.
  std::string shard_of(int rank, Index step) const {
    for (const char* slot : {"-a", "-b"})
      for (const char* suffix : {".json", ".unvoted"}) {
        const std::string path = directory() + "/rank-0000" + std::to_string(rank) + slot;
        if (!fs::exists(path + suffix)) continue;
        if (store::parse_slot_header(read_whole(path + suffix, block_bytes)).step == step)
          return path + ".h5";
      }
    return "";
  }
  static void flip_byte(const std::string& path, Index at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }

  const std::string key_ = "test-" + std::to_string(::getpid());
  ScratchDirectory folder_;
};

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
      rank.checkpointer.save_snapshot(rank.progress);
      rank.train_to(4);
      rank.add_state_to(straight);
    });
    on_threads(attempt(job), [&](CheckpointRank& rank) {
      rank.load();
      EXPECT_EQ(rank.progress.step, 2);
      EXPECT_EQ(rank.progress.samples, 16);
      EXPECT_EQ(rank.steps.optimizer->updates(), 2);
      EXPECT_EQ(rank.padding(), 0);
      EXPECT_EQ(rank.checkpointer.last_snapshot(), 2);
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

TEST_F(MemoryTier, IsCompleteWithoutAVoteWhereAllRanksHaveIt) {
  const CheckpointJob job = attempt({{2, 1, 1, 1}});
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    rank.train_to(2);
    rank.checkpointer.save_snapshot(rank.progress);
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
      rank.checkpointer.save_snapshot(rank.progress);
      rank.checkpointer.take_snapshot_vote(1e9);
      EXPECT_EQ(shard_of(rank.context.host().rank(), 1), first);
      EXPECT_EQ(rank.checkpointer.last_snapshot(), 1);
    }
    rank.train_to(5);
    rank.checkpointer.save_snapshot(rank.progress);
    rank.checkpointer.take_snapshot_vote(1);  // another rank is not ready yet
    rank.checkpointer.save_snapshot({.step = 6});
    EXPECT_NE(shard_of(rank.context.host().rank(), 5), "");
    rank.checkpointer.take_snapshot_vote(0);
    EXPECT_EQ(rank.checkpointer.last_snapshot(), 5);
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

TEST_F(MemoryTier, IsBroughtFromWhereACopyIsToRanksThatHaveNone) {
  for (const bool damaged : {false, true}) {
    CheckpointJob job = attempt({{2, 1, 2, 1}, Update::sharded});
    job.options.checkpoint.save_memory_partner = true;
    make_steps(job);
    Gathered expected, loaded;
    on_threads({job.layout, job.update}, [&](CheckpointRank& rank) {
      rank.train_to(3);
      rank.add_state_to(expected);
    });
    for (const int rank : {1, 3})  // whose nodes are lost, while partners have copies
      for (const fs::directory_entry& entry : fs::directory_iterator(directory())) {
        const std::string name = entry.path().filename();
        if (name.starts_with("rank-0000" + std::to_string(rank)))
          fs::rename(entry.path(), directory() + "/copy-of-" + name);
      }
    EXPECT_EQ(shard_of(3, 3), "");
    const std::string copy = directory() + "/copy-of-rank-00003-b.h5";
    if (damaged) flip_byte(copy, static_cast<Index>(fs::file_size(copy)) / 2);
    on_threads(job, [&](CheckpointRank& rank) {
      rank.load();
      EXPECT_EQ(rank.progress.step, damaged ? 2 : 3);
      rank.train_to(3);
      rank.add_state_to(loaded);
    });
    EXPECT_EQ(loaded.tensors(), expected.tensors());
    EXPECT_NE(shard_of(3, damaged ? 2 : 3), "");  // it is the rank's own again
    fs::remove_all(folder_ / "run");
    store::remove_snapshots(directory());
  }
}

TEST_F(MemoryTier, IsNotBroughtWhereACopyIsMissingOrOfAnotherForm) {
  CheckpointJob job = attempt({{2, 1, 1, 1}});
  job.options.checkpoint.save_memory_partner = true;
  make_steps(job);
  const std::string lost = directory() + "/rank-00001-",
                    copy = directory() + "/copy-of-rank-00001-";
  for (const char* name : {"a.h5", "a.json"}) fs::rename(lost + name, copy + name);
  for (const char* name : {"b.h5", "b.json"}) fs::remove(lost + name);
  store::SlotHeader header = store::parse_slot_header(read_whole(copy + "a.json", block_bytes));
  EXPECT_EQ(header.step, 2);
  header.form.low ^= 1;
  fs::remove(copy + "a.json");
  write_whole(copy + "a.json", to_text(header));
  EXPECT_EQ(loaded_step(job), 1);
}

TEST(Partners, AreInTheSamePlaceHalfOfTheNodesFurtherOn) {
  EXPECT_THAT(checkpoint::partners({"n0", "n0"}), ElementsAre());
  EXPECT_THAT(checkpoint::partners({"n0", "n0", "n1", "n1"}), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(checkpoint::partners({"n0", "n1", "n2", "n3"}), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(checkpoint::partners({"n0", "n1", "n2"}), ElementsAre(1, 2, 0));
  EXPECT_THAT(checkpoint::partners({"n0", "n1", "n0"}), ElementsAre(1, 0, 1));  // unequal nodes
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
