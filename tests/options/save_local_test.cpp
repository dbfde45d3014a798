// --save-local: what it needs, and where it may lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> problems_of_saving(const std::string& text) {
  return GptCommandLine(text, 1).problems.all();
}

TEST(SaveLocal, NeedsSnapshotsInMemory) {
  EXPECT_THAT(problems_of_saving("--save /tmp/c --save-local /tmp"),
              ElementsAre(HasSubstr("--save-local has no meaning without --save-memory-interval; "
                                    "add --save-memory-interval N")));
  EXPECT_THAT(problems_of_saving("--save /tmp/c --save-memory-interval 5 --save-local-interval 10"),
              ElementsAre(HasSubstr("--save-local-interval has no meaning without --save-local")));
}

TEST(SaveLocal, CopiesWholeSnapshots) {
  const std::string line = "--save /tmp/c --save-memory-interval 4 --save-local /tmp";
  EXPECT_THAT(problems_of_saving(line), ElementsAre());
  EXPECT_THAT(problems_of_saving(line + " --save-local-interval 12"), ElementsAre());
  EXPECT_THAT(problems_of_saving(line + " --save-local-interval 10"),
              ElementsAre(HasSubstr("--save-local-interval 10 is not a multiple of "
                                    "--save-memory-interval 4, whose snapshots are copied; the "
                                    "nearest: 8 or 12")));
}

TEST(SaveLocal, IsNotTheDirectoryOfCheckpoints) {
  const ScratchDirectory folder;
  EXPECT_THAT(problems_of_saving("--save-memory-interval 4 --save " + (folder / "run") +
                                 " --save-local " + (folder / "x/../run/")),
              ElementsAre(HasSubstr("is the directory of --save; give one on a disk of each")));
}

}  // namespace
}  // namespace trireme
