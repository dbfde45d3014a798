// Slots on a disk: copies of those in memory, which are whole and synced or hold nothing.
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/tiers/slots.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Index bytes = 2 * block_bytes + 77;

class SlotsOnADisk : public ::testing::Test {
 protected:
  SlotsOnADisk() {
    fs::create_directory(directory());
    memory_.reserve();
  }
  std::string directory() const { return folder_ / "disk"; }
  SlotHeader fill(Index step) const {
    std::memset(memory_.memory(0), static_cast<int>(step), static_cast<std::size_t>(bytes));
    return {step, "job-1", 3, 4, {7, 9}, std::vector<Checksum>(3)};
  }

  ScratchDirectory folder_, in_memory_{ScratchDirectory::in_memory()};
  Slots memory_{in_memory_ / "snapshots", 3, bytes};
  Slots disk_{directory(), 3, bytes};
};

TEST_F(SlotsOnADisk, HoldWhatWasWrittenLast) {
  for (const Index step : {10, 20}) {
    const SlotHeader header = fill(step);
    disk_.write(1, memory_.memory(0), header);
    ASSERT_TRUE(disk_.header(1).has_value());
    EXPECT_EQ(disk_.header(1)->step, step);
    EXPECT_FALSE(disk_.header(1)->complete);
    disk_.confirm(1);
    EXPECT_TRUE(disk_.header(1)->complete);
    EXPECT_EQ(fs::file_size(directory() + "/rank-00003-b.h5"), std::uintmax_t{bytes});
    std::memset(memory_.memory(1), 0, static_cast<std::size_t>(bytes));
    disk_.read(1, memory_.memory(1));
    EXPECT_EQ(std::memcmp(memory_.memory(0), memory_.memory(1), std::size_t{bytes}), 0);
  }
  EXPECT_THAT(list_directory(directory()), ElementsAre("rank-00003-b.h5", "rank-00003-b.json"));
}

TEST_F(SlotsOnADisk, HoldNothingWhereWritingFails) {
  disk_.write(0, memory_.memory(0), fill(10));
  disk_.confirm(0);
  fs::remove(directory() + "/rank-00003-a.h5");
  fs::create_directory(directory() + "/rank-00003-a.h5");
  EXPECT_THROW(disk_.write(0, memory_.memory(0), fill(20)), Error);
  EXPECT_FALSE(disk_.header(0).has_value());
  fs::remove_all(directory());
  EXPECT_THROW(disk_.write(1, memory_.memory(0), fill(20)), Error);
  EXPECT_FALSE(fs::exists(directory()));  // what was mounted there is gone
}

TEST_F(SlotsOnADisk, HoldNothingWhereWritingIsGivenUpAfterAnyPiece) {
  constexpr Index large = (Index{16} << 20) + 77;  // three pieces
  Slots memory(in_memory_ / "large", 4, large);
  memory.reserve();
  const Slots disk(directory(), 4, large);
  const SlotHeader header{10, "job-1", 4, 8, {}, std::vector<Checksum>(17)};
  int pieces = 0;
  const auto give_up_at = [&](int piece) {
    pieces = 0;
    disk.write(0, memory.memory(0), header, [&, piece] {
      if (pieces++ == piece) throw Error("given up");
    });
  };
  for (const int piece : {0, 1, 2}) {
    disk.write(0, memory.memory(0), header);
    disk.confirm(0);
    EXPECT_THAT(message_of([&] { give_up_at(piece); }), HasSubstr("given up"));
    EXPECT_EQ(pieces, piece + 1);
    EXPECT_FALSE(disk.header(0).has_value());
    EXPECT_THAT(list_directory(directory()), ElementsAre("rank-00004-a.h5"));
  }
  EXPECT_NO_THROW(give_up_at(3));
  EXPECT_TRUE(disk.header(0).has_value());
}

TEST_F(SlotsOnADisk, AreNotReadWhereTheyAreShorter) {
  disk_.write(0, memory_.memory(0), fill(10));
  fs::resize_file(directory() + "/rank-00003-a.h5", bytes - 1);
  EXPECT_THAT(message_of([&] { disk_.read(0, memory_.memory(1)); }),
              HasSubstr("rank-00003-a.h5: has 2097228 bytes instead of 2097229"));
}

TEST_F(SlotsOnADisk, OfARunAreRemovedNodeByNodeOrTogether) {
  const std::string disk = folder_ / "";
  EXPECT_NO_THROW(remove_local_snapshots(disk, "key"));
  const auto make = [&] {
    fs::create_directory(local_snapshot_directory(disk, "key"));
    for (const char* node : {"n0", "n1"}) {
      const Slots slots(local_snapshot_directory(disk, "key", node), 3, bytes);
      fs::create_directory(slots.directory());
      slots.write(0, memory_.memory(0), fill(10));
    }
  };
  make();
  remove_local_snapshots(disk, "key", "n0");
  EXPECT_THAT(list_directory(local_snapshot_directory(disk, "key")), ElementsAre("n1"));
  remove_local_snapshots(disk, "key", "n1");
  EXPECT_FALSE(fs::exists(local_snapshot_directory(disk, "key")));
  make();
  remove_local_snapshots(disk, "key");
  EXPECT_FALSE(fs::exists(local_snapshot_directory(disk, "key")));
}

}  // namespace
}  // namespace trireme::store
