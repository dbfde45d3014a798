// Copies of snapshots on disks of the nodes (--save-local): what is loaded when memory is lost,
// wholly or in part, and that a disk that cannot take one costs no more than that.
#include "runtime/checkpoint/tiers/local_copies.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "runtime/core/process/this_machine.h"
#include "runtime/store/tiers/time_line.h"
#include "tests/checkpoint/memory_tier.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalCopies : public MemoryTier {
 protected:
  LocalCopies() { fs::create_directory(disk_); }
  CheckpointJob with_disk(CheckpointJob job = {}, Index interval = 1) const {
    job = attempt(std::move(job));
    job.options.checkpoint.save_local = disk_;
    job.options.checkpoint.save_local_interval = interval;
    return job;
  }
  std::string on_disk() const { return store::local_snapshot_directory(disk_, key_, host_name()); }
  std::string copy_of(int rank, Index step) const { return shard_in(on_disk(), rank, step); }
  /// As a reboot of all nodes does.
  void lose_memory() const { store::remove_snapshots(directory()); }
  static void damage(const std::string& file) {
    flip_byte(file, static_cast<Index>(fs::file_size(file)) / 2);
  }
  std::string tier() const { return store::read_time_line(folder_ / "run").value().start().tier; }
  void forget_all() const {
    fs::remove_all(folder_ / "run");
    store::remove_local_snapshots(disk_, key_);
    lose_memory();
  }

  const std::string disk_ = folder_ / "disk";
};

TEST_F(LocalCopies, GiveTheSameBitsOnEveryLayoutWhenMemoryIsLost) {
  std::vector<CheckpointJob> jobs;
  for (const Layout& layout : layouts())
    for (const Update update : updates()) jobs.push_back({layout, update});
  for (const CheckpointJob& job : jobs) {
    SCOPED_TRACE(describe(job.layout));
    Gathered loaded, straight, resumed;
    on_threads(with_disk(job), [&](CheckpointRank& rank) {
      rank.load();
      rank.train_to(2);
      snapshot(rank);
      EXPECT_EQ(rank.local().newest(), 2);
      rank.train_to(4);
      rank.add_state_to(straight);
    });
    test::record_files("tier", disk_);
    lose_memory();
    on_threads(with_disk(job), [&](CheckpointRank& rank) {
      rank.load();
      EXPECT_EQ(rank.progress.step, 2);
      EXPECT_EQ(rank.progress.samples, 16);
      EXPECT_EQ(rank.memory().newest(), 2);  // it is in memory again
      EXPECT_EQ(rank.local().newest(), 2);
      rank.add_state_to(loaded);
      rank.train_to(4);
      rank.add_state_to(resumed);
    });
    EXPECT_EQ(tier(), "local");
    EXPECT_EQ(loaded.disagreements(), 0);
    EXPECT_EQ(resumed.tensors(), straight.tensors());
    forget_all();
  }
}

TEST_F(LocalCopies, AreMadeAtTheFirstSnapshotOfEachInterval) {
  on_threads(with_disk({{2, 1, 1, 1}}, 3), [&](CheckpointRank& rank) {
    rank.load();
    std::vector<Index> newest;
    for (const Index step : {1, 2, 4, 5, 6, 11, 12}) {  // no update was made in those left out
      rank.train_to(step);
      snapshot(rank);
      newest.push_back(rank.local().newest());
    }
    EXPECT_EQ(newest, (std::vector<Index>{-1, -1, 4, 4, 6, 11, 12}));
  });
}

TEST_F(LocalCopies, AreTakenPieceByPieceWhereMemoryHasNone) {
  const CheckpointJob job = with_disk({{2, 1, 2, 1}, Update::sharded});
  Gathered expected, loaded;
  on_threads({job.layout, job.update}, [&](CheckpointRank& rank) {
    rank.train_to(3);
    rank.add_state_to(expected);
  });
  make_steps(job);
  for (const char* slot : {"-a.json", "-b.json"}) fs::remove(directory() + "/rank-00001" + slot);
  damage(shard_of(2, 3));
  for (const int rank : {0, 3}) damage(copy_of(rank, 3));  // which are in memory
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 3);
    rank.add_state_to(loaded);
  });
  EXPECT_EQ(loaded.tensors(), expected.tensors());
  EXPECT_EQ(tier(), "local");
  EXPECT_EQ(loaded_step(job), 3);
  EXPECT_EQ(tier(), "memory");
}

TEST_F(LocalCopies, OfAStepThatIsDamagedInAllPlacesAreGivenUpForTheStepBefore) {
  const CheckpointJob job = with_disk({{2, 1, 1, 1}});
  make_steps(job);
  damage(shard_of(1, 3));
  damage(copy_of(1, 3));
  EXPECT_EQ(loaded_step(job), 2);
  EXPECT_EQ(copy_of(0, 3), "");
  forget_all();
  make_steps(job);
  lose_memory();
  for (const Index step : {2, 3}) damage(copy_of(0, step));
  EXPECT_EQ(loaded_step(job), 1);
  EXPECT_EQ(tier(), "durable");
}

TEST_F(LocalCopies, ThatCannotBeBroughtLeaveTheSlotThatTheyWereToFill) {
  const CheckpointJob job = with_disk({{2, 1, 1, 1}}, 2);
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    for (const Index step : {2, 3, 4}) {
      rank.train_to(step);
      snapshot(rank);
    }
  });
  // Rank 0 has steps 2 and 4 on its disk, rank 1 steps 2 and 3 in memory.
  const std::string lost = fs::path(shard_of(0, 3)).replace_extension(".json"),
                    to = fs::path(shard_of(1, 4)).replace_extension(),
                    from = fs::path(copy_of(1, 2)).replace_extension();
  const std::string short_copy = copy_of(1, 4);
  fs::remove(lost);
  for (const char* suffix : {".h5", ".json"})
    fs::copy_file(from + suffix, to + suffix, fs::copy_options::overwrite_existing);
  fs::resize_file(short_copy, 100);
  EXPECT_EQ(loaded_step(job), 2);
  EXPECT_NE(shard_of(1, 2), "");
  EXPECT_EQ(loaded_step(job), 2);
}

TEST_F(LocalCopies, StandInForACopyOfAPartnerThatIsDamaged) {
  CheckpointJob job = with_disk({{2, 1, 1, 1}});
  job.options.checkpoint.save_memory_partner = true;
  make_steps(job);
  const std::string mine = shard_of(1, 3), name = fs::path(mine).stem();
  for (const char* suffix : {".h5", ".json"})
    fs::rename(directory() + "/" + name + suffix, directory() + "/copy-of-" + name + suffix);
  damage(directory() + "/copy-of-" + name + ".h5");
  EXPECT_EQ(loaded_step(job), 3);
  EXPECT_EQ(tier(), "local");
}

TEST_F(LocalCopies, OfOtherRanksAreTakenWhereACopyOfAPartnerCannotBeSent) {
  CheckpointJob job = with_disk({{2, 1, 2, 1}, Update::sharded});
  job.options.checkpoint.save_memory_partner = true;
  Gathered expected, loaded;
  on_threads({job.layout, job.update}, [&](CheckpointRank& rank) {
    rank.train_to(3);
    rank.add_state_to(expected);
  });
  make_steps(job);
  const fs::path mine = fs::path(shard_of(1, 3)).replace_extension();
  const std::string copy = directory() + "/copy-of-" + mine.filename().string();
  for (const char* suffix : {".h5", ".json"}) fs::rename(mine.string() + suffix, copy + suffix);
  fs::resize_file(copy + ".h5", 100);
  for (const int rank : {2, 3})
    fs::remove(fs::path(shard_of(rank, 3)).replace_extension(".json"));  // on their disks only
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 3);
    rank.add_state_to(loaded);
  });
  EXPECT_EQ(loaded.tensors(), expected.tensors());
  EXPECT_EQ(tier(), "local");
}

TEST_F(LocalCopies, OfATimeThatWasAbandonedAreNeitherLoadedNorKept) {
  const CheckpointJob job = with_disk({{2, 1, 2, 1}});
  CheckpointJob back = job, back_without = job;
  back.options.checkpoint.ckpt_step = 1;
  back_without.options.checkpoint.ckpt_step = 1;
  back_without.options.checkpoint.save_memory_interval = 0;
  back_without.options.checkpoint.save_local = "";
  for (const CheckpointJob& between : {back, back_without}) {
    make_steps(job);
    const Absent nodes(on_disk());
    lose_memory();
    on_threads(between, [&](CheckpointRank& rank) {
      rank.load();
      EXPECT_EQ(rank.progress.step, 1);
    });
    lose_memory();
    nodes.return_to_the_job();
    EXPECT_NE(copy_of(0, 3), "");
    EXPECT_EQ(loaded_step(job), 1);
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(copy_of(rank, 3), "") << rank;
    forget_all();
  }
}

TEST_F(LocalCopies, ThatAreOlderThanWhatIsLoadedStayUntilNewerOnesAreComplete) {
  const CheckpointJob job = with_disk({{2, 1, 1, 1}}, 2);
  make_steps(job);
  fs::remove(fs::path(copy_of(1, 2)).replace_extension(".json"));
  EXPECT_EQ(loaded_step(job), 3);
  EXPECT_EQ(copy_of(0, 2), "");  // not complete without that of rank 1
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    for (const Index step : {4, 5}) {
      rank.train_to(step);
      snapshot(rank);
    }
  });
  EXPECT_EQ(loaded_step(job), 5);
  EXPECT_NE(copy_of(0, 4), "");
  lose_memory();
  EXPECT_EQ(loaded_step(job), 4);
}

TEST_F(LocalCopies, HoldTheSnapshotThatTheyAreMadeOf) {
  on_threads(with_disk({{2, 1, 1, 1}}), [&](CheckpointRank& rank) {
    const auto next = [&](Index step) {
      rank.train_to(step);
      rank.memory().start(rank.progress);
      rank.memory().settle(0);
    };
    rank.load();
    next(1);                 // and begins to be copied
    rank.local().settle(1);  // another rank still writes
    next(2);                 // into the other slot
    EXPECT_EQ(rank.memory().newest(), 2);
    next(3);  // would overwrite step 1
    EXPECT_EQ(rank.memory().newest(), 2);
    EXPECT_NE(shard_of(rank.context.host().rank(), 1), "");
    rank.local().settle(0);
    EXPECT_EQ(rank.local().newest(), 1);
    next(4);
    EXPECT_EQ(rank.memory().newest(), 4);
    rank.context.host().world().barrier();
    rank.checkpointer.end_snapshots(false);  // waits for what is being written
  });
}

TEST_F(LocalCopies, ThatADiskCannotTakeCostNothingElse) {
  const CheckpointJob job = with_disk({{2, 1, 1, 1}});
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    rank.train_to(1);
    snapshot(rank);
    EXPECT_EQ(rank.local().newest(), 1);
    const std::string obstacle = on_disk() + "/rank-00001-b.h5";
    if (rank.context.host().rank() == 1) fs::create_directory(obstacle);
    rank.context.host().world().barrier();
    for (const Index step : {2, 3}) {
      rank.train_to(step);
      snapshot(rank);
      EXPECT_EQ(rank.memory().newest(), step);
      EXPECT_EQ(rank.local().newest(), 1);
    }
    rank.context.host().world().barrier();
    if (rank.context.host().rank() == 1) fs::remove(obstacle);
    rank.train_to(4);
    snapshot(rank);
    EXPECT_EQ(rank.local().newest(), 4);
  });
}

TEST_F(LocalCopies, ThatAreUnderWayAreGivenUpOrFinishedAtTheEnd) {
  on_threads(with_disk({{1, 1, 1, 1}}), [&](CheckpointRank& rank) {
    store::Slots mine(directory(), 0, Index{9} << 20);
    mine.reserve();
    const auto header = [&](Index step) { return store::SlotHeader{step, "job", 0, 1, {}, {}}; };
    checkpoint::LocalCopies copies(rank.context, key_, mine, host_name());
    copies.open(std::nullopt, 0);
    copies.start(mine, 0, header(1));
    copies.end(false);
    EXPECT_EQ(copies.vote(), 0);
    EXPECT_NE(copy_of(0, 1), "");
    copies.settle(0);
    copies.end(true);
    copies.start(mine, 0, header(2));  // the thread sees at its first piece that it has to end
    copies.end(true);
    EXPECT_EQ(copies.vote(), checkpoint::SnapshotTier::failed_vote);
    EXPECT_EQ(copy_of(0, 2), "");
    EXPECT_NE(copy_of(0, 1), "");
    EXPECT_EQ(copies.newest(), 1);
  });
}

TEST_F(LocalCopies, AreMadeByNoRankWhereOneCannotAndTheLogNamesItsNodeOnce) {
  const CheckpointJob job = with_disk({{2, 1, 2, 1}});
  const auto on_ranks = [&](const std::function<void(CheckpointRank&)>& f) {
    run_on_threads(job.layout.shape(), [&](Mesh& mesh) {
      CheckpointJob mine = job;
      if (mesh.rank() >= 2) mine.options.checkpoint.save_local = folder_ / "missing";
      CheckpointRank rank(mesh, mine);
      f(rank);
    });
  };
  const auto two_steps = [](CheckpointRank& rank) {
    rank.load();
    for (const Index step : {1, 2}) {
      rank.train_to(step);
      snapshot(rank);
      EXPECT_EQ(rank.local().newest(), -1);
    }
  };
  ::testing::internal::CaptureStderr();
  on_ranks(two_steps);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string why = str("on ", host_name(), ": there is no such directory; no rank copies");
  EXPECT_THAT(log, HasSubstr(str("warning: --save-local ", disk_, ": ", why)));
  EXPECT_EQ(log.find("--save-local"), log.rfind("--save-local")) << log;
  for (int rank = 0; rank < 4; ++rank)
    for (const Index step : {1, 2}) EXPECT_EQ(copy_of(rank, step), "") << rank << ' ' << step;
}

TEST_F(LocalCopies, OfRanksThatCanAreReadWhereOthersHaveTheirsInMemory) {
  const CheckpointJob job = with_disk({{2, 1, 1, 1}});
  make_steps(job);
  fs::remove(fs::path(shard_of(0, 3)).replace_extension(".json"));
  run_on_threads(job.layout.shape(), [&](Mesh& mesh) {
    CheckpointJob mine = job;
    if (mesh.rank() == 1) mine.options.checkpoint.save_local = folder_ / "missing";
    CheckpointRank rank(mesh, mine);
    rank.load();
    EXPECT_EQ(rank.progress.step, 3);
  });
}

TEST_F(LocalCopies, InADirectoryOfAnEarlierJobAreRemovedAtTheEndAsWell) {
  const CheckpointJob before = with_disk({{2, 1, 1, 1}});
  CheckpointJob job = before;
  job.options.checkpoint.save_local = folder_ / "other";
  fs::create_directory(job.options.checkpoint.save_local);
  make_steps(before);
  EXPECT_NE(copy_of(0, 3), "");
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    rank.context.host().world().barrier();
    rank.checkpointer.end_snapshots(true);
  });
  EXPECT_TRUE(fs::is_empty(disk_));
  EXPECT_TRUE(fs::is_empty(job.options.checkpoint.save_local));
}

TEST_F(LocalCopies, NeedADirectoryThatIsThere) {
  CheckpointJob job = with_disk({{2, 1, 1, 1}});
  job.options.checkpoint.save_local = folder_ / "missing";
  EXPECT_THAT(message_of([&] { loaded_step(job); }),
              HasSubstr(str("/missing: on ", host_name(), ": there is no such directory; it has")));
}

TEST_F(LocalCopies, AreRemovedWithTheirDirectory) {
  const CheckpointJob job = with_disk({{2, 1, 1, 1}});
  make_steps(job);
  EXPECT_THAT(store::read_time_line(folder_ / "run").value().disks(), ElementsAre(disk_));
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    rank.context.host().world().barrier();
    rank.checkpointer.end_snapshots(true);
  });
  EXPECT_TRUE(fs::is_empty(disk_));
}

}  // namespace
}  // namespace trireme
