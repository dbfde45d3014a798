// Copies of snapshots in memory of other nodes: where they are, and that they come back.
#include "runtime/checkpoint/tiers/partner_copies.h"

#include <cstring>
#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "tests/checkpoint/memory_tier.h"

namespace trireme {
namespace {

using namespace testing;
using ::testing::ElementsAre;

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

TEST_F(MemoryTier, IsLoadedFromCopiesWhereAllRanksHaveLostTheirs) {
  CheckpointJob job = attempt({{2, 1, 2, 1}});
  job.options.checkpoint.save_memory_partner = true;
  make_steps(job);
  for (int rank = 0; rank < 4; ++rank)
    for (const char* name : {"b.h5", "b.json"}) {
      const std::string file = "rank-0000" + std::to_string(rank) + "-" + name;
      fs::rename(directory() + "/" + file, directory() + "/copy-of-" + file);
    }
  EXPECT_EQ(shard_of(0, 3), "");
  EXPECT_EQ(loaded_step(job), 3);
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

TEST_F(MemoryTier, CopiesAreCountedAsLargeAsTheyAre) {
  CheckpointJob job = attempt({{2, 1, 1, 1}, Update::sharded});
  job.shares = {3, 1};
  job.options.checkpoint.save_memory_partner = true;
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();
    const Host& host = rank.context.host();
    host.world().barrier();  // all have reserved theirs
    const auto bytes_of = [&](int of) {
      const std::string shard = directory() + "/rank-0000" + std::to_string(of) + "-a.h5";
      return static_cast<Index>(fs::file_size(shard));
    };
    const Index own = bytes_of(host.rank()), others = bytes_of(1 - host.rank());
    EXPECT_NE(own, others);
    const auto more = [&](const std::string& node) {
      return checkpoint::MemoryTier::more_for_copies(rank.context, *rank.steps.model.flat,
                                                     job.options.optimizer, node);
    };
    EXPECT_EQ(more(host.rank() == 0 ? "n0" : "n1"), store::Slots::count * (others - own));
    EXPECT_EQ(more("n0"), -store::Slots::count * own);  // of one node there are none
  });
}

/// Ranks of two nodes, of which the first has more: so the second has copies of several.
class Copies : public MemoryTier {
 protected:
  static constexpr Index bytes = 3 * block_bytes / 2;

  struct Rank {
    Rank(CheckpointRank& rank, const std::string& directory)
        : me(rank.context.host().rank()),
          slots(directory, me, bytes),
          copies(rank.context, slots, warned, me < 2 ? "n0" : "n1") {
      slots.reserve();
      copies.open({});
      rank.context.host().world().barrier();
    }
    /// Copies of `step` arrive; returns whether this rank can take them.
    bool send(Index step, const std::function<void()>& before_the_headers = {}) {
      std::memset(slots.memory(0), static_cast<int>(step) + me, static_cast<std::size_t>(bytes));
      copies.start(slots, 0, store::SlotHeader{step, "job", me, 3, {}, {}});
      copies.settle(0);
      if (before_the_headers) before_the_headers();
      copies.end(false);
      return copies.vote() == 0;
    }
    int me;
    store::Slots slots;
    bool warned = false;
    checkpoint::PartnerCopies copies;
  };
  /// What rank 2 has of rank `of`: the steps of its two slots.
  std::vector<Index> steps_of(int of) const {
    const store::Slots slots(directory(), of, bytes, store::Slots::Whose::copy);
    std::vector<Index> steps;
    for (const int slot : {0, 1}) {
      const auto header = slots.header(slot);
      steps.push_back(header ? header->step : -1);
    }
    return steps;
  }
};

TEST_F(Copies, ArriveWithTheirHeadersAndTakeTurns) {
  on_threads({{3, 1, 1, 1}}, [&](CheckpointRank& on) {
    Rank rank(on, directory());
    for (const Index step : {1, 2, 3}) {
      EXPECT_TRUE(rank.send(step));
      rank.copies.settle(0);
    }
    on.context.host().world().barrier();
    if (rank.me != 2) return;
    for (const int of : {0, 1}) {
      EXPECT_THAT(steps_of(of), ElementsAre(3, 2)) << of;
      store::Slots copy(directory(), of, bytes, store::Slots::Whose::copy);
      copy.reserve();
      for (const Index at : {Index{0}, bytes - 1}) {
        EXPECT_EQ(static_cast<int>(copy.memory(0)[at]), 3 + of);
        EXPECT_EQ(static_cast<int>(copy.memory(1)[at]), 2 + of);
      }
    }
  });
}

TEST_F(Copies, OfOtherRanksAreFinishedWhereOneCannotBeAndTheStepBeforeStays) {
  on_threads({{3, 1, 1, 1}}, [&](CheckpointRank& on) {
    Rank rank(on, directory());
    EXPECT_TRUE(rank.send(1));
    rank.copies.settle(0);
    const std::string in_the_way = directory() + "/copy-of-rank-00000-b.new";
    const bool arrived = rank.send(2, [&] {
      if (rank.me == 2) fs::create_directory(in_the_way);
    });
    EXPECT_EQ(arrived, rank.me != 2);
    rank.copies.settle(checkpoint::SnapshotTier::failed_vote);
    EXPECT_TRUE(rank.copies.has_lost(2));
    on.context.host().world().barrier();
    if (rank.me == 2) {
      EXPECT_THAT(steps_of(0), ElementsAre(1, -1));
      EXPECT_THAT(steps_of(1), ElementsAre(1, 2));
      fs::remove(in_the_way);
    }
    on.context.host().world().barrier();
    EXPECT_TRUE(rank.send(3));  // in place of step 2
    on.context.host().world().barrier();
    if (rank.me != 2) return;
    EXPECT_THAT(steps_of(0), ElementsAre(1, 3));
    EXPECT_THAT(steps_of(1), ElementsAre(1, 3));
  });
}

TEST(Partners, AreInTheSamePlaceHalfOfTheNodesFurtherOn) {
  EXPECT_THAT(checkpoint::partners({"n0", "n0"}), ElementsAre());
  EXPECT_THAT(checkpoint::partners({"n0", "n0", "n1", "n1"}), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(checkpoint::partners({"n0", "n1", "n2", "n3"}), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(checkpoint::partners({"n0", "n1", "n2"}), ElementsAre(1, 2, 0));
  EXPECT_THAT(checkpoint::partners({"n0", "n1", "n0"}), ElementsAre(1, 0, 1));  // unequal nodes
}

}  // namespace
}  // namespace trireme
