// What the status page of a rank says of the operations of its GPU.
#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include "runtime/comm/page_of.h"
#include "runtime/observe/page_reader.h"
#include "tests/comm/cuda/gpu_ranks.h"

namespace trireme {
namespace {

observe::PageState read_page(const observe::StatusPage& page) {
  return observe::PageReader(page.path()).read();
}

/// The last one of "GPU world"; the end of the list where there is none.
auto last_operation(const observe::PageState& page) {
  return std::find_if(page.operations.rbegin(), page.operations.rend(), [&](const auto& operation) {
    return page.groups[static_cast<std::size_t>(operation.group)].name == "GPU world";
  });
}

/// "GPU world", or its channel between two ranks; nothing begun where there is none.
observe::GroupState find(const observe::PageState& page, const std::vector<int>& members,
                         bool channel = false) {
  for (const observe::GroupState& group : page.groups)
    if (group.name == "GPU world" && group.channel == channel &&
        group.runs == observe::runs_of(members))
      return group;
  return {};
}

class NcclPages : public testing::Test {
 protected:
  observe::PageState page() { return read_page(comm::page_of(*ranks_.host, none_)); }
  /// Operations that were begun and have ended since `before`.
  static std::pair<Index, Index> since(const observe::GroupState& before,
                                       const observe::GroupState& after) {
    return {static_cast<Index>(after.begun - before.begun),
            static_cast<Index>(after.done - before.done)};
  }

  GpuRanks ranks_ = open_gpu_ranks();
  observe::StatusPage none_;
};

TEST_F(NcclPages, CountCollectivesWhenTheyAreEnqueuedAndWhenTheyHaveEnded) {
  if (ranks_.size() == 1) GTEST_SKIP() << "one rank has no group";
  std::vector<int> all(static_cast<std::size_t>(ranks_.size()));
  std::iota(all.begin(), all.end(), 0);
  Communicator& world = ranks_.mesh->world();
  const Buffer memory = ranks_.gpu->allocate(1024);
  const observe::GroupState before = find(page(), all);
  const Ticket ticket =
      world.start_all_reduce({memory.data(), 16, DType::f32}, Reduction::sum, *ranks_.stream);
  EXPECT_EQ(find(page(), all).begun, before.begun + 1);
  world.wait(ticket, *ranks_.stream);
  ranks_.stream->synchronize();
  EXPECT_TRUE(world.done(ticket));
  const observe::PageState after = page();
  EXPECT_EQ(since(before, find(after, all)), std::pair(Index{1}, Index{1}));
  const auto last = last_operation(after);
  ASSERT_NE(last, after.operations.rend());
  EXPECT_EQ(last->kind, observe::OperationKind::all_reduce);
  EXPECT_EQ(last->count, 16);
  EXPECT_GE(last->done_ns, last->begun_ns);
}

TEST_F(NcclPages, ShowAllElementsOfUnequalParts) {
  if (ranks_.size() == 1) GTEST_SKIP() << "one rank has no group";
  const Buffer memory = ranks_.gpu->allocate(1024);
  std::vector<Index> counts(static_cast<std::size_t>(ranks_.size()), 0);
  counts[1] = 32;
  const int me = ranks_.mesh->rank();
  ranks_.mesh->world().all_gather({memory.data(), me == 1 ? 32 : 0, DType::f32},
                                  {memory.data(), 32, DType::f32}, *ranks_.stream, {counts});
  ranks_.stream->synchronize();
  const observe::PageState shown = page();
  const auto last = last_operation(shown);
  ASSERT_NE(last, shown.operations.rend());
  EXPECT_EQ(last->kind, observe::OperationKind::all_gather);
  EXPECT_EQ(last->count, 32);
}

TEST_F(NcclPages, CountMessagesByTheirChannels) {
  if (ranks_.size() == 1) GTEST_SKIP() << "one rank has no group";
  const int me = ranks_.mesh->rank();
  const int next = (me + 1) % ranks_.size(), before_me = (me + ranks_.size() - 1) % ranks_.size();
  const Buffer memory = ranks_.gpu->allocate(1024);
  const Message send{next, memory.data(), 64}, receive{before_me, memory.data() + 512, 64};
  const Message empty{next, memory.data(), 0};
  const observe::PageState was = page();
  Communicator& world = ranks_.mesh->world();
  for (int i = 0; i < 2; ++i) {
    const Ticket ticket =
        world.start_exchange(std::array{send, empty}, std::array{receive}, *ranks_.stream);
    world.wait(ticket, *ranks_.stream);
    ranks_.stream->synchronize();
    EXPECT_TRUE(world.done(ticket));
  }
  const observe::PageState is = page();
  const std::pair both(Index{2}, Index{2});
  for (const std::vector<int>& ends : {std::vector{me, next}, std::vector{before_me, me}})
    EXPECT_EQ(since(find(was, ends, true), find(is, ends, true)), both);
}

}  // namespace
}  // namespace trireme
