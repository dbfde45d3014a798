// What a reader learns from a page beyond its words: which group is which, what a rank that polls
// waits for, and how long it may be quiet.
#include "runtime/observe/page_reader.h"

#include <array>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/observe/status_page.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

using ::testing::SizeIs;

TEST(PageReader, GivesTheNextGroupOfTheSameMembersThePlaceOfARetiredOne) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 2);
  const GroupId first = page.add_group("world", std::array{0, 1});
  const GroupId second = page.add_group("world", std::array{0, 1});
  page.end(page.begin(first, {}));
  page.retire(first);
  const GroupId third = page.add_group("world", std::array{0, 1});
  EXPECT_EQ(third.index, first.index);
  EXPECT_EQ(page.begin(third, {}).sequence, 2u);
  EXPECT_NE(page.add_group("world", std::array{0, 1}).index, first.index);
  page.retire(second);
  EXPECT_NE(page.add_channel("world", 0, 1).index, second.index);
  const auto groups = PageReader(page_path(folder.path(), 0)).read().groups;
  ASSERT_THAT(groups, SizeIs(4));
  EXPECT_EQ(groups[1].name, "world 2");
  EXPECT_EQ(groups[2].name, "world 3");
}

TEST(PageReader, OfARankThatWaitsForItsGpuSaysForWhichOperations) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 2);
  const GroupId data = page.add_group("GPU data", std::array{0, 1});
  const GroupId tensor = page.add_group("GPU tensor", std::array{0, 1});
  page.end(page.begin(data, {}));
  page.end(page.begin(tensor, {}));
  for (int i = 0; i < 2; ++i) page.begin(tensor, {});  // enqueued, not done
  page.progressed();
  const auto read = [&] { return PageReader(page_path(folder.path(), 0)).read(); };
  EXPECT_EQ(read().waits_for, WaitsFor::nothing);  // it may compute beside them
  const std::int64_t moved = read().moved_ns;
  while (read().heartbeat_ns <= moved) page.heartbeat();
  EXPECT_EQ(read().waits_for, WaitsFor::operations);
  EXPECT_EQ(read().waits_since_ns, moved);
  ASSERT_THAT(read().awaited, SizeIs(1));
  EXPECT_EQ(read().groups[static_cast<std::size_t>(read().awaited[0].group)].name, "GPU tensor");
  EXPECT_EQ(read().awaited[0].sequence, 2u);
}

TEST(PageReader, ShowsTheLongestGapWhenAWholeStepHasHadItsGaps) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  const PageReader reader(page_path(folder.path(), 0));
  const auto gap_s = [&] { return reader.progress().longest_gap_s; };
  page.enter(Phase::step);
  for (Index step = 1; step <= 2; ++step) {
    page.begin_step(step);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    page.begin_op(0, {});
    EXPECT_EQ(gap_s(), 0) << step;  // an op to come may take longer
    page.end_step(step, 1, 1);
  }
  EXPECT_GT(gap_s(), 0);
  EXPECT_EQ(reader.progress().phase, Phase::step);
  StatusPage fast(folder.path(), 1, 2);
  for (Index step = 1; step <= 2; ++step) {
    fast.begin_step(step);
    fast.end_step(step, 1, 1);
  }
  EXPECT_GT(PageReader(fast.path()).progress().longest_gap_s, 0);  // short, and yet known
  EXPECT_EQ(reader.progress().ops, reader.read().ops);
}

}  // namespace
}  // namespace trireme::observe
