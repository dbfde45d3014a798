// Files and directories under names of their own until they are whole.
#include "runtime/store/write/unfinished.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "tests/support/full_device.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

constexpr auto a_file = HeldPath::Kind::file, a_directory = HeldPath::Kind::directory;

TEST(Unfinished, TwoWritersOfOneNameDoNotTouchEachOther) {
  const ScratchDirectory folder;
  {
    Unfinished first(folder / "out", a_directory), second(folder / "out", a_directory);
    EXPECT_NE(first.path(), second.path());
    for (const Unfinished* each : {&first, &second})
      write_whole(each->path() + "/who", each == &first ? "first" : "second");
    first.finish();
    EXPECT_THAT(message_of([&] { second.finish(); }), HasSubstr("out: exists already"));
  }
  EXPECT_EQ(folder.read("out/who"), "first");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Unfinished, IsRemovedWhenItIsNotFinishedAndRefusesATakenName) {
  const ScratchDirectory folder;
  {
    const Unfinished file(folder / "x", a_file);
    EXPECT_EQ(folder.files(), 1u);
  }
  EXPECT_EQ(folder.files(), 0u);
  std::filesystem::create_symlink("nowhere", folder / "x");
  EXPECT_THAT(message_of([&] { Unfinished(folder / "x", a_file); }),
              HasSubstr("x: exists already"));
}

/// Whoever is killed leaves its file or directory; the lock on it has ended with the process.
TEST(Unfinished, IsRemovedByTheNextWriterOfItsNameWhereItsProcessWasKilled) {
  for (const auto kind : {a_file, a_directory}) {
    const ScratchDirectory folder;
    const std::string foreign = folder.write("x.0123456789abcdef.tmp", "of another machine");
    const Unfinished held(folder / "x", kind);
    EXPECT_EXIT(
        {
          const Unfinished left(folder / "x", kind);
          if (kind == a_directory) write_whole(left.path() + "/part", "part");
          ::raise(SIGKILL);
        },
        testing::KilledBySignal(SIGKILL), "");
    EXPECT_EQ(folder.files(), 3u);
    const Unfinished of_another_name(folder / "y", kind);
    EXPECT_EQ(folder.files(), 4u);
    const Unfinished next(folder / "x", kind);
    EXPECT_EQ(folder.files(), 4u);
    for (const std::string& path : {foreign, held.path(), of_another_name.path(), next.path()})
      EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
}

TEST(Unfinished, OfOneSeriesCanBeBegunAtOnce) {
  const ScratchDirectory folder{ScratchDirectory::in_memory()};
  std::vector<std::thread> threads;
  std::atomic<int> lost = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const HeldPath path(i % 2 == 0 ? a_file : a_directory, folder / "x.", ".tmp");
        if (!std::filesystem::exists(path.path())) ++lost;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(ReplaceFile, LeavesTheOldOrTheNewFileAndNoOther) {
  const ScratchDirectory folder;
  replace_file(folder / "x", "one");
  replace_file(folder / "x", "two");
  EXPECT_EQ(folder.read("x"), "two");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(WriteOutput, ReplacesItsKindBehindALinkAndNothingElse) {
  const ScratchDirectory folder;
  constexpr OutputKind list{"a list", "list:", "", true};
  const std::string full = full_device(folder / "full");
  std::filesystem::create_symlink("target", folder / "link");
  folder.write("target", "list: 1");
  write_output(folder / "link", "list: 2", list);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(folder.read("target"), "list: 2");
  folder.write("target", "notes");
  EXPECT_THAT(message_of([&] { write_output(folder / "link", "list: 3", list); }),
              HasSubstr("link: exists, and is not a list"));
  EXPECT_EQ(folder.read("target"), "notes");
  EXPECT_THAT(message_of([&] { write_output(full, "list: 3", list); }),
              HasSubstr(full + ": write: No space left on device"));
  EXPECT_TRUE(std::filesystem::is_character_file(full));
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
