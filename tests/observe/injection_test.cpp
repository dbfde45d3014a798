// A rank is asked for a fault by a word in its page.
#include "runtime/observe/injection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/observe/status_page.h"
#include "tests/observe/page_file.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

using ::testing::HasSubstr;

TEST(Injection, ReachesItsRankOnce) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage first(folder.path(), 0, 2), second(folder.path(), 1, 2), off;
  inject(second.path(), {InjectedFault::flip, 4000000000});
  EXPECT_EQ(first.take_injection(), 0u);
  EXPECT_EQ(off.take_injection(), 0u);
  const Injection taken = injection_of(second.take_injection());
  EXPECT_EQ(taken.fault, InjectedFault::flip);
  EXPECT_EQ(taken.draw, 4000000000u);
  EXPECT_EQ(second.take_injection(), 0u);
}

TEST(Injection, OfAnUnknownFaultIsNone) {
  EXPECT_EQ(injection_of(injected_fault_count).fault, InjectedFault::none);
  EXPECT_EQ(injection_of(UINT64_MAX).fault, InjectedFault::none);
  for (std::uint32_t fault = 0; fault < injected_fault_count; ++fault) {
    const Injection injection{static_cast<InjectedFault>(fault), 7};
    EXPECT_EQ(injection_of(word_of(injection)).fault, injection.fault);
  }
}

TEST(Injection, ChangesNoPageOfAnotherVersion) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  overwrite(folder, offsetof(PageHeader, version), page_version + 1);
  EXPECT_THAT(message_of([&] {
                inject(page.path(), {InjectedFault::hang, 0});
              }),
              HasSubstr("rank-00000: no status page of this version"));
  EXPECT_EQ(page.take_injection(), 0u);
}

}  // namespace
}  // namespace trireme::observe
