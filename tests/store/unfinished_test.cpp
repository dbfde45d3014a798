// Files and directories under names of their own until they are whole.
#include "runtime/store/write/unfinished.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

TEST(Unfinished, TwoWritersOfOneNameDoNotTouchEachOther) {
  const ScratchDirectory folder;
  {
    Unfinished first(folder / "out"), second(folder / "out");
    EXPECT_NE(first.path(), second.path());
    for (const Unfinished* each : {&first, &second}) {
      make_directory(each->path());
      write_whole(each->path() + "/who", each == &first ? "first" : "second");
    }
    first.finish();
    EXPECT_THAT(message_of([&] { second.finish(); }), HasSubstr("out: exists already"));
  }
  EXPECT_EQ(folder.read("out/who"), "first");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Unfinished, IsRemovedWhenItIsNotFinishedAndRefusesATakenName) {
  const ScratchDirectory folder;
  {
    const Unfinished file(folder / "x");
    write_whole(file.path(), "half");
    EXPECT_EQ(folder.files(), 1u);
  }
  EXPECT_EQ(folder.files(), 0u);
  std::filesystem::create_symlink("nowhere", folder / "x");
  EXPECT_THAT(message_of([&] { Unfinished(folder / "x"); }), HasSubstr("x: exists already"));
}

TEST(RenameNew, ReplacesNoFile) {
  const ScratchDirectory folder;
  const std::string a = folder.write("a", "1"), b = folder.write("b", "2");
  EXPECT_THAT(message_of([&] { rename_new(a, b); }), HasSubstr("b: exists already"));
  EXPECT_EQ(folder.read("b"), "2");
  rename_new(a, folder / "c");
  EXPECT_EQ(folder.read("c"), "1");
  EXPECT_THAT(message_of([&] { rename_new(a, folder / "d"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace trireme
