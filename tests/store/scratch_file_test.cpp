// Scratch files: where they go, that nothing stays of them, and which pages count as written.
#include <limits>

#include <gtest/gtest.h>

#include "runtime/store/hdf5/layout.h"
#include "tests/support/scratch_directory.h"

namespace trireme::hdf5 {
namespace {

TEST(ScratchFile, GoesToTheFirstDirectoryThatTakesIt) {
  const ScratchDirectory folder;
  const ScratchFile file(1 << 20, {folder / "missing", folder / "", "/dev/shm"});
  EXPECT_EQ(file.path().rfind(folder / "", 0), 0u) << file.path();
  EXPECT_EQ(folder.files(), 1u);
}

TEST(ScratchFile, SaysWhyNoDirectoryTakesIt) {
  const ScratchDirectory folder;
  const std::string message = message_of(folder, [&] {
    ScratchFile(std::numeric_limits<Index>::max(), {folder / "missing", folder / ""});
  });
  EXPECT_NE(message.find("missing: No such file or directory"), std::string::npos) << message;
  EXPECT_NE(message.find(" bytes are free"), std::string::npos) << message;
  EXPECT_NE(message_of(folder, [] { ScratchFile(1, {"/proc"}); }), "");
  EXPECT_EQ(folder.files(), 0u);
}

TEST(ScratchFile, LeavesNothing) {
  const ScratchDirectory folder;
  { const ScratchFile file(1, {folder / ""}); }
  EXPECT_EQ(folder.files(), 0u);
  ScratchFile file(1, {folder / ""});
  file.unlink();
  EXPECT_EQ(folder.files(), 0u);
  EXPECT_EQ(file.size(), 0);
}

TEST(ScratchFile, FindsPagesThatAreNotZero) {
  for (const auto& directories : {scratch_directories(), {"/tmp"}}) {  // memory, and disk
    const ScratchFile file(1 << 20, directories);
    std::ofstream out(file.path(), std::ios::binary);
    const std::string page(4096, 'x'), zeros(3 * 4096, '\0');
    out.seekp(2 * 4096) << page << page << zeros << page;
    out.seekp(Index{1} << 32) << zeros << "tail";
    out.close();
    const std::vector<FileLayout::Run> runs = file.contents();
    EXPECT_EQ(file.size(), (Index{1} << 32) + 3 * 4096 + 4);
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_EQ(runs[0].offset, 2 * 4096);
    EXPECT_EQ(runs[0].bytes, std::vector<std::byte>(2 * 4096, std::byte{'x'}));
    EXPECT_EQ(runs[1].offset, 7 * 4096);
    EXPECT_EQ(runs[1].bytes.size(), 4096u);
    EXPECT_EQ(runs[2].offset, (Index{1} << 32) + 3 * 4096);
    EXPECT_EQ(runs[2].bytes.size(), 4u);
    EXPECT_EQ(runs[2].bytes[3], std::byte{'l'});
  }
}

}  // namespace
}  // namespace trireme::hdf5
