// Status pages: what a rank writes is what another process reads, also after the rank was killed;
// and a page that is half written, or of another version, is noticed.
#include "runtime/observe/status_page.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/observe/page_reader.h"
#include "runtime/observe/process_state.h"
#include "tests/observe/page_file.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(StatusPage, WithoutADirectoryWritesNothing) {
  StatusPage page;
  EXPECT_FALSE(page.on());
  const GroupId group = page.add_group("data", std::array{0, 1});
  page.enter(Phase::step);
  page.begin_step(1);
  page.begin_micro_batch(0, page.add_name("forward"));
  page.begin_op(0, page.add_name("linear"));
  const Operation operation = page.begin(group, {});
  page.wait_for(std::array{operation});
  page.heartbeat();
  page.stop_waiting();
  page.end(operation);
  page.end_step(1, 5, 2.5);
  page.fail("reason");
  EXPECT_EQ(operation.record, 0u);
}

TEST(StatusPage, IsReadAsItWasWritten) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder / "a0001", 3, 8);
  page.set_coordinates("pp0 dp1 tp1");
  page.set_micro_batches(6);
  page.set_sharing(2);
  const GroupId data = page.add_group("data", std::array{1, 3, 5});
  const GroupId from_2 = page.add_channel("pipeline", 2, 3);
  const NameId forward = page.add_name("forward"), linear = page.add_name("linear");
  page.enter(Phase::step);
  page.begin_step(41);
  page.end_step(41, 7000, 3.25);
  page.begin_step(42);
  page.begin_micro_batch(2, forward);
  page.begin_op(17, linear);
  const Operation reduced = page.begin(data, {OperationKind::all_reduce, DType::bf16, 100, -1});
  const Operation received = page.begin(from_2, {OperationKind::receive, DType::u8, 64, 2});
  page.end(reduced);
  page.set_durable_step(30);
  page.set_memory_step(40);
  page.set_local_step(35);
  page.wait_for(std::array{received});

  const PageState state = PageReader(page_path(folder / "a0001", 3)).read();
  EXPECT_EQ(state.rank, 3);
  EXPECT_EQ(state.ranks, 8);
  EXPECT_EQ(state.pid, ::getpid());
  EXPECT_EQ(state.started_ticks, read_process_state(::getpid())->started_ticks);
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof(host) - 1), 0);
  EXPECT_EQ(state.host, host);
  EXPECT_EQ(state.coordinates, "pp0 dp1 tp1");
  EXPECT_EQ(state.phase, Phase::step);
  EXPECT_EQ(state.step, 42);
  EXPECT_EQ(state.micro_batch, 2);
  EXPECT_EQ(state.action, "forward");
  EXPECT_EQ(state.op_index, 17);
  EXPECT_EQ(state.op, "linear");
  EXPECT_EQ(state.micro_batches, 6);
  EXPECT_EQ(state.sharing, 2);
  EXPECT_EQ(state.durable_step, 30);
  EXPECT_EQ(state.memory_step, 40);
  EXPECT_EQ(state.local_step, 35);
  EXPECT_EQ(state.loss, 3.25);
  EXPECT_THAT(state.torn, IsEmpty());
  ASSERT_THAT(state.steps, SizeIs(1));
  EXPECT_EQ(state.steps[0].step, 41);
  EXPECT_EQ(state.steps[0].compute_ns, 7000);
  ASSERT_THAT(state.groups, SizeIs(2));
  EXPECT_EQ(state.groups[0].name, "data");
  EXPECT_FALSE(state.groups[0].channel);
  EXPECT_EQ(state.groups[0].begun, 1u);
  EXPECT_EQ(state.groups[0].done, 1u);
  EXPECT_TRUE(state.groups[1].channel);
  EXPECT_EQ(state.groups[1].done, 0u);
  ASSERT_THAT(state.operations, SizeIs(2));
  EXPECT_EQ(state.operations[0].kind, OperationKind::all_reduce);
  EXPECT_EQ(state.operations[0].dtype, DType::bf16);
  EXPECT_EQ(state.operations[0].count, 100);
  EXPECT_GE(state.operations[0].done_ns, state.operations[0].begun_ns);
  EXPECT_EQ(state.operations[1].peer, 2);
  EXPECT_EQ(state.operations[1].done_ns, 0);
  EXPECT_EQ(state.waits_for, WaitsFor::operations);
  ASSERT_THAT(state.awaited, SizeIs(1));
  EXPECT_EQ(state.awaited[0].group, 1);
  EXPECT_EQ(state.awaited[0].sequence, 1u);
  EXPECT_GE(state.age_s(state.heartbeat_ns), 0);

  page.stop_waiting();
  page.fail("rank 3: no space");
  const PageState after = PageReader(page_path(folder / "a0001", 3)).read();
  EXPECT_EQ(after.waits_for, WaitsFor::nothing);
  EXPECT_GT(after.ops, state.ops);
  EXPECT_EQ(after.phase, Phase::failed);
  EXPECT_EQ(after.error, "rank 3: no space");
}

TEST(StatusPage, IsReadAfterItsRankWasKilled) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    StatusPage page(folder.path(), 0, 2);
    page.enter(Phase::step);
    page.begin_step(7);
    const GroupId world = page.add_group("world", std::array{0, 1});
    page.wait_for(std::array{page.begin(world, {OperationKind::barrier})});
    (void)!::write(ready[1], "x", 1);
    for (;;) page.heartbeat();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const PageState state = read(folder);
  EXPECT_EQ(state.pid, child);
  EXPECT_EQ(state.phase, Phase::step);
  EXPECT_EQ(state.step, 7);
  ASSERT_THAT(state.operations, SizeIs(1));
  EXPECT_EQ(state.operations[0].kind, OperationKind::barrier);
  EXPECT_EQ(state.operations[0].done_ns, 0);
}

TEST(StatusPage, LeavesOutARecordThatItsWriterDidNotFinish) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  const GroupId world = page.add_group("world", std::array{0});
  for (int i = 0; i < 3; ++i) page.end(page.begin(world, {OperationKind::barrier}));
  // As by a kill inside the write of the second record.
  overwrite(folder, offsetof(PageLayout, operation_ring) + sizeof(SequenceLocked<OperationWords>),
            std::uint64_t{5});
  const PageState state = read(folder);
  EXPECT_THAT(state.torn, ElementsAre("operation"));
  ASSERT_THAT(state.operations, SizeIs(2));
  EXPECT_EQ(state.operations[0].sequence, 1u);
  EXPECT_EQ(state.operations[1].sequence, 3u);
}

TEST(StatusPage, IsNeverReadHalfWhileItIsWritten) {
  using Numbers = std::array<std::uint64_t, 7>;
  SequenceLocked<Numbers> record;
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !ends; ++i) {
      Numbers numbers;
      numbers.fill(i);
      record.write(numbers);
    }
  });
  int whole = 0;
  for (int i = 0; i < 20000; ++i) {
    Numbers numbers;
    if (!record.read(numbers)) continue;
    ++whole;
    for (const std::uint64_t number : numbers) ASSERT_EQ(number, numbers[0]);
  }
  ends = true;
  writer.join();
  EXPECT_GT(whole, 0);
}

TEST(StatusPage, OfAnotherVersionIsRefused) {
  const ScratchDirectory folder;
  const StatusPage page(folder.path(), 0, 1);
  const auto refusal = [&] { return message_of(folder, [&] { read(folder); }); };
  EXPECT_EQ(refusal(), "");
  overwrite(folder, offsetof(PageHeader, version), page_version + 1);
  EXPECT_EQ(refusal(), str("rank-00000: a status page of version ", page_version + 1,
                           "; this program reads version ", page_version));
  overwrite(folder, offsetof(PageHeader, magic), 'T');
  EXPECT_EQ(refusal(), "rank-00000: no status page: it begins with other bytes");
  std::filesystem::resize_file(folder / "rank-00000", 100);
  EXPECT_EQ(refusal(), "rank-00000: no status page: 100 bytes, must be 16384");
  EXPECT_THAT(message_of(folder, [&] { read(folder, 1); }), HasSubstr("rank-00001: open: No such"));
}

TEST(StatusPage, KeepsTheLastOperations) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  const GroupId world = page.add_group("world", std::array{0});
  const Operation first = page.begin(world, {OperationKind::all_gather});
  for (int i = 0; i < 99; ++i) page.end(page.begin(world, {OperationKind::barrier}));
  page.end(first);  // its record is overwritten; it counts nevertheless
  const PageState state = read(folder);
  EXPECT_EQ(state.groups[0].begun, 100u);
  EXPECT_EQ(state.groups[0].done, 100u);
  ASSERT_THAT(state.operations, SizeIs(PageLayout::operations));
  for (std::size_t i = 0; i < state.operations.size(); ++i) {
    EXPECT_EQ(state.operations[i].sequence, 37 + i);
    EXPECT_EQ(state.operations[i].kind, OperationKind::barrier);
  }
}

TEST(StatusPage, EndsNoOperationThatTookThePlaceOfAnOlderOne) {
  for (const std::size_t newer : {PageLayout::operations - 1, PageLayout::operations}) {
    const ScratchDirectory folder(ScratchDirectory::in_memory());
    StatusPage page(folder.path(), 0, 1);
    const GroupId world = page.add_group("world", std::array{0});
    const Operation first = page.begin(world, {OperationKind::all_gather});
    for (std::size_t i = 0; i < newer; ++i) page.begin(world, {OperationKind::barrier});
    page.end(first);
    int ended = 0;
    for (const OperationState& operation : read(folder).operations)
      if (operation.done_ns != 0) ++ended;
    EXPECT_EQ(ended, newer < PageLayout::operations ? 1 : 0);
  }
}

TEST(StatusPage, KeepsTheLastStepTimes) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  for (int step = 0; step < 100; ++step) page.end_step(step, step * 10, 0);
  const PageState state = read(folder);
  ASSERT_THAT(state.steps, SizeIs(PageLayout::steps));
  EXPECT_EQ(state.steps.front().step, 36);
  EXPECT_EQ(state.steps.back().compute_ns, 990);
}

TEST(StatusPage, LeavesOutWhatItsTablesCannotHold) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 200);
  GroupId last;
  for (int i = 0; i < 60; ++i) last = page.add_group(str("group ", i), std::array{0, i + 1});
  EXPECT_EQ(last.index, GroupId::none);
  EXPECT_EQ(page.begin(last, {}).record, 0u);
  NameId name{1};
  for (int i = 0; i < 60 && name.offset != 0; ++i)
    name = page.add_name(std::string(200, 'x') + std::to_string(i));
  EXPECT_EQ(name.offset, 0u);
  const PageState state = read(folder);
  EXPECT_THAT(state.groups, SizeIs(PageLayout::most_groups));
  EXPECT_EQ(state.groups.back().name, "group 47");
}

TEST(StatusPage, HoldsTheMembersOfLargeAndIrregularGroups) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 10000);
  std::vector<int> world(10000);
  std::iota(world.begin(), world.end(), 0);
  page.add_group("world", world);
  const std::vector<int> irregular = {0, 4, 8, 9, 10, 70};
  page.add_group("tied", irregular);
  const PageState state = read(folder);
  const auto members = [&](std::size_t group) {
    std::vector<int> ranks;
    for (const RankRun& run : state.groups[group].runs)
      for (int i = 0; i < run.count; ++i) ranks.push_back(run.first + i * run.stride);
    return ranks;
  };
  EXPECT_THAT(state.groups[0].runs, SizeIs(1));
  EXPECT_EQ(members(0), world);
  EXPECT_EQ(members(1), irregular);
}

TEST(StatusPage, MeasuresTheLongestGapBetweenOpsFromTheSecondStepOn) {
  constexpr auto pause = std::chrono::milliseconds(30);
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  page.begin_step(5);
  std::this_thread::sleep_for(pause);
  page.begin_op(0, {});
  EXPECT_EQ(read(folder).longest_gap_ns, 0);
  page.begin_step(6);
  std::this_thread::sleep_for(pause);
  page.begin_op(0, {});
  EXPECT_GE(read(folder).longest_gap_ns, 20'000'000);  // the clock is coarse
}

TEST(StatusPage, CountsNoWaitAsAGapBetweenOps) {
  constexpr auto pause = std::chrono::milliseconds(30);
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  for (const Index step : {5, 6}) page.begin_step(step);
  page.begin_op(0, {});
  page.wait_for(WaitsFor::data);
  const PageState before = read(folder);
  std::this_thread::sleep_for(pause);
  page.wait_for(std::array{Operation{}});  // and then for something else
  std::this_thread::sleep_for(pause);
  page.stop_waiting();
  const PageState after = read(folder);
  EXPECT_EQ(after.longest_gap_ns, before.longest_gap_ns);
  EXPECT_EQ(after.ops, before.ops + 1);
  EXPECT_GT(after.moved_ns, before.moved_ns);
}

TEST(StatusPage, CountsTheTimeUpToAWaitAsAGap) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  for (const Index step : {5, 6}) page.begin_step(step);
  page.begin_op(0, {});
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  page.wait_for(std::array{Operation{}});
  EXPECT_GE(read(folder).longest_gap_ns, 20'000'000);
}

TEST(StatusPage, KeepsTheFirstFailure) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  page.fail("no space");
  page.fail("the other ranks have gone");
  EXPECT_EQ(read(folder).error, "no space");
  EXPECT_EQ(read(folder).phase, Phase::failed);
}

TEST(StatusPage, TakesThePlaceOfAnOldOneThatIsStillRead) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage old(folder.path(), 0, 1);
  old.begin_step(8);
  const PageReader reader(page_path(folder.path(), 0));
  const StatusPage fresh(folder.path(), 0, 1);
  EXPECT_EQ(reader.read().step, 8);
  EXPECT_EQ(read(folder).step, -1);
  EXPECT_EQ(folder.files(), 1u);
}

TEST(StatusPage, ThatCannotBeMadeNamesItsPath) {
  const ScratchDirectory folder;
  folder.write("file", "");
  EXPECT_THAT(message_of(folder, [&] { StatusPage(folder / "file/a0001", 0, 1); }),
              AllOf(HasSubstr("file/a0001"), HasSubstr("Not a directory")));
}

TEST(StatusPage, AllocatesNothingAfterItsStart) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 2);
  const GroupId world = page.add_group("world", std::array{0, 1});
  const NameId op = page.add_name("linear");
  const auto before = test::allocations_of_this_thread();
  page.begin_step(1);
  page.begin_micro_batch(0, op);
  page.begin_op(1, op);
  const std::array operations = {page.begin(world, {})};
  page.wait_for(operations);
  page.heartbeat();
  page.stop_waiting();
  page.end(operations[0]);
  page.end_step(1, 1, 1);
  EXPECT_EQ(test::allocations_of_this_thread(), before);
}

TEST(StatusPage, IsFoundByItsDirectory) {
  const ScratchDirectory folder;
  EXPECT_THAT(find_pages(folder / "none"), IsEmpty());
  const StatusPage second(folder.path(), 1, 2), first(folder.path(), 0, 2);
  folder.write("snapshot-0-a", "");
  folder.write("rank-00001.77", "");  // unfinished
  EXPECT_THAT(find_pages(folder.path()), ElementsAre(folder / "rank-00000", folder / "rank-00001"));
}

}  // namespace
}  // namespace trireme::observe
