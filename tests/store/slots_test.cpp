// Slots of snapshots in the memory of a node: what they hold after exits, damage and new sizes.
#include "runtime/store/tiers/slots.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/file_layout.h"
#include "tests/io_shim/run_with_shim.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Index bytes = 2 * block_bytes + 77;

SlotHeader header_of(const Slots& slots, int slot, Index step) {
  SlotHeader header{step, "job-1", 3, 4, {7, 9}, {}};
  for (Index block = 0; block < blocks_of(slots.bytes()); ++block) {
    const Index begin = block * block_bytes;
    header.blocks.push_back(
        checksum(slots.memory(slot) + begin, std::min(block_bytes, slots.bytes() - begin)));
  }
  return header;
}

void fill(const Slots& slots, int slot, Index step) {
  slots.begin(slot);
  std::memset(slots.memory(slot), static_cast<int>(step), static_cast<std::size_t>(bytes));
  slots.finish(slot, header_of(slots, slot, step));
}

/// In a directory of its own, which is in memory.
class SlotsOfARank : public ::testing::Test {
 protected:
  std::string directory() const { return folder_ / "snapshots"; }
  Slots reserved() const {
    Slots slots(directory(), 3, bytes);
    slots.reserve();
    return slots;
  }
  std::vector<std::string> names() const { return list_directory(directory()); }

  ScratchDirectory folder_{ScratchDirectory::in_memory()};
};

TEST_F(SlotsOfARank, HoldNothingUntilTheyAreFilled) {
  Slots slots(directory(), 3, bytes);
  EXPECT_FALSE(slots.header(0).has_value());
  EXPECT_EQ(slots.reserved_bytes(), 0);
  slots.reserve();
  EXPECT_FALSE(slots.header(0).has_value() || slots.header(1).has_value());
  EXPECT_GE(slots.reserved_bytes(), 2 * bytes);
  EXPECT_THAT(names(), ElementsAre("rank-00003-a.h5", "rank-00003-b.h5"));
}

TEST_F(SlotsOfARank, AreCountedWhereTheyBelongToOthers) {
  EXPECT_EQ(bytes_of_others(directory(), {}), 0);
  const Slots slots = reserved();
  EXPECT_EQ(bytes_of_others(directory(), {3}), 0);
  EXPECT_GE(bytes_of_others(directory(), {2}), 2 * bytes);
  Slots copies(directory(), 3, bytes, Slots::Whose::copy);
  copies.reserve();
  EXPECT_GE(bytes_of_others(directory(), {3}), 2 * bytes);
}

TEST_F(SlotsOfARank, AreCompleteOnceTheyAreConfirmed) {
  const Slots slots = reserved();
  fill(slots, 1, 20);
  const auto written = slots.header(1);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(written->step, 20);
  EXPECT_EQ(written->job, "job-1");
  EXPECT_EQ(written->rank, 3);
  EXPECT_EQ(written->ranks, 4);
  EXPECT_EQ(written->form, (Checksum{7, 9}));
  EXPECT_EQ(written->blocks, header_of(slots, 1, 20).blocks);
  EXPECT_FALSE(written->complete);
  slots.confirm(1);
  EXPECT_TRUE(slots.header(1)->complete);
  slots.begin(1);
  EXPECT_FALSE(slots.header(1).has_value());
}

TEST_F(SlotsOfARank, OutliveTheProcessAndKeepWhatTheyHoldWhenReservedAgain) {
  {
    const Slots slots = reserved();
    fill(slots, 0, 10);
    slots.confirm(0);
  }
  const Slots again = reserved();
  ASSERT_TRUE(again.header(0).has_value());
  EXPECT_EQ(again.header(0)->blocks, header_of(again, 0, 10).blocks);
  EXPECT_EQ(again.memory(0)[bytes - 1], std::byte{10});
}

TEST_F(SlotsOfARank, OfAnotherSizeHoldNothing) {
  fill(reserved(), 0, 10);
  Slots larger(directory(), 3, bytes + 1);
  larger.reserve();
  EXPECT_FALSE(larger.header(0).has_value());
  EXPECT_EQ(std::filesystem::file_size(directory() + "/rank-00003-a.h5"), bytes + 1);
}

TEST_F(SlotsOfARank, WithADamagedHeaderHoldNothing) {
  const Slots slots = reserved();
  fill(slots, 0, 10);
  slots.confirm(0);
  const std::string path = directory() + "/rank-00003-a.json";
  const std::string text = read_whole(path, block_bytes);
  const auto put = [&](const std::string& damaged) {
    remove_file(path);
    write_whole(path, damaged);
    return slots.header(0).has_value();
  };
  EXPECT_TRUE(put(text));
  for (std::size_t at = 0; at < text.size(); ++at) {
    EXPECT_FALSE(put(text.substr(0, at))) << at;
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    EXPECT_FALSE(put(flipped)) << at;
  }
}

TEST_F(SlotsOfARank, OfOtherRanksAreRemovedAndOwnOnesStay) {
  fill(reserved(), 0, 10);
  Slots(directory(), 12, bytes).reserve();
  remove_slots_of_others(directory(), {1, 3});
  EXPECT_THAT(names(), ElementsAre("rank-00003-a.h5", "rank-00003-a.unvoted", "rank-00003-b.h5"));
  remove_snapshots(directory());
  EXPECT_FALSE(std::filesystem::exists(directory()));
  remove_snapshots(directory());  // gone already
}

TEST_F(SlotsOfARank, NameWhatIsNeededAndFreeWhereThereIsTooLittle) {
  const Index much = Index{1} << 50;
  Slots slots(directory(), 0, much);
  EXPECT_THAT(message_of([&] { slots.reserve(); }),
              AllOf(HasSubstr("rank-00000-a.h5: 1.00 PiB are needed, "),
                    HasSubstr(" are free (No space left on device)")));
}

}  // namespace
}  // namespace trireme::store
