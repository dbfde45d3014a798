// Copies of pages that their ranks write at the same time.

#include <atomic>
#include <fstream>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/observe/page_mapping.h"
#include "runtime/observe/remote/page_agent.h"
#include "runtime/observe/status_page.h"
#include "tests/observe/page_file.h"
#include "tests/support/message_of.h"

namespace trireme::observe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// The page of rank 0 in `folder`, as a copy of it says.
PageState copy_of(const ScratchDirectory& folder) {
  const PageReader reader(page_path(folder.path(), 0));
  const ScratchDirectory other{ScratchDirectory::in_memory()};
  const PageMapping file =
      PageMapping::create(page_path(other.path(), 0), page_bytes,
                          [&](void* data) { copy_page(reader.raw(), *new (data) PageLayout()); });
  return read(other);
}

TEST(PageCopies, SayWhatThePageSays) {
  const ScratchDirectory folder{ScratchDirectory::in_memory()};
  StatusPage page(folder.path(), 0, 2);
  page.enter(Phase::step);
  page.begin_step(7);
  const GroupId data = page.add_group("data", std::array{0, 1});
  page.wait_for(std::array{page.begin(data, {OperationKind::all_reduce, DType::f32, 100})});
  const PageState found = copy_of(folder);
  EXPECT_EQ(found.step, 7);
  ASSERT_EQ(found.groups.size(), 1U);
  EXPECT_EQ(found.groups[0].begun, 1U);
  ASSERT_EQ(found.operations.size(), 1U);
  EXPECT_EQ(found.operations[0].count, 100);
  ASSERT_EQ(found.awaited.size(), 1U);
}

TEST(PageCopies, HoldWholeRecordsWhileTheRankWrites) {
  const ScratchDirectory folder{ScratchDirectory::in_memory()};
  StatusPage page(folder.path(), 0, 1);
  std::atomic<bool> ends = false;
  std::thread rank([&] {
    for (Index step = 1; !ends; ++step) {
      page.begin_step(step);
      page.end_step(step, step * 1000, 0);
    }
  });
  const PageReader reader(page_path(folder.path(), 0));
  const auto copy = std::make_unique<PageLayout>();
  int mixed = 0;
  for (int i = 0; i < 2000; ++i) {
    copy_page(reader.raw(), *copy);
    for (const auto& record : copy->step_ring) {
      StepWords words{};
      EXPECT_TRUE(record.read(words));
      mixed += words.compute_ns != words.step * 1000 ? 1 : 0;
    }
  }
  ends = true;
  rank.join();
  EXPECT_EQ(mixed, 0);
}

TEST(PageCopies, ShowARecordThatWasNeverFinished) {
  const ScratchDirectory folder{ScratchDirectory::in_memory()};
  StatusPage page(folder.path(), 0, 1);
  page.begin_step(7);
  overwrite(folder, offsetof(PageLayout, place), std::uint64_t{5});  // odd: it is being written
  EXPECT_THAT(copy_of(folder).torn, Contains("place"));
}

TEST(SupervisorAddresses, AreReadAsWritten) {
  const SupervisorAddress address{4711, "abc", {"10.0.0.1", "192.168.1.1"}};
  EXPECT_EQ(to_text(address), "4711:abc:10.0.0.1,192.168.1.1");
  const SupervisorAddress again = parse_supervisor_address(to_text(address));
  EXPECT_EQ(again.port, 4711);
  EXPECT_EQ(again.token, "abc");
  EXPECT_THAT(again.addresses, ElementsAre("10.0.0.1", "192.168.1.1"));
  for (const char* text : {"", "::", "4711", "4711:abc:", "x:abc:10.0.0.1", "99999:abc:10.0.0.1",
                           "123456:abc:10.0.0.1", "4711::10.0.0.1"})
    EXPECT_THAT(message_of([&] { parse_supervisor_address(text); }),
                HasSubstr("TRIREME_PAGES_TO: expected PORT:TOKEN:ADDRESS,ADDRESS"))
        << text;
}

}  // namespace
}  // namespace trireme::observe
