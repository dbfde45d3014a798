// Directories of commands, which are removed at their ends.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/write/held_path.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(TemporaryDirectories, AreRemovedWithWhatIsInThem) {
  const ScratchDirectory folder;
  std::string path;
  {
    const TemporaryDirectory directory(folder.path(), "name");
    path = directory.path();
    EXPECT_THAT(path, StartsWith(folder / "name-"));
    std::filesystem::create_directories(path + "/a/b");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT(trireme::message_of([&] { TemporaryDirectory(folder / "none", "name"); }),
              AllOf(StartsWith(folder / "none/name-"), HasSubstr(": mkdir: No such file")));
}

}  // namespace
}  // namespace trireme::test
