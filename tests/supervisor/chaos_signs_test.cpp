// By what faults are noticed that end no attempt.
#include "launch/supervisor/commands/chaos_signs.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::HasSubstr;

TEST(ChaosSigns, ASkippedStepIsFoundBehindAnother) {
  const ScratchDirectory folder;
  EXPECT_EQ(skipped_step(folder / "metrics", 0), -1);
  folder.write("metrics",
               "{\"step\":1,\"skipped\":false}\n{\"step\":2,\"skipped\":true}\n"
               "{\"step\":3,\"skipped\":false}\n{\"step\":4,\"skipped\":true}\n{\"step\":5,\"ski");
  EXPECT_EQ(skipped_step(folder / "metrics", 0), 2);
  EXPECT_EQ(skipped_step(folder / "metrics", 2), 4);
  EXPECT_EQ(skipped_step(folder / "metrics", 4), -1);
}

TEST(ChaosSigns, AFailedSaveIsFoundInWhatTheLogGained) {
  const ScratchDirectory folder;
  EXPECT_EQ(failed_save(folder / "log", 0), "");
  const std::string old = "# step 5 is not saved: it was before\n";
  folder.write("log", old + "# saved step 10\n");
  EXPECT_EQ(failed_save(folder / "log", static_cast<Index>(old.size())), "");
  folder.write("log", old + "# step 15 is not saved: File too large; training continues\n# s");
  EXPECT_EQ(failed_save(folder / "log", static_cast<Index>(old.size())),
            "# step 15 is not saved: File too large; training continues");
}

TEST(ChaosSigns, TheStepThatWasLoadedIsInTheLog) {
  const ScratchDirectory folder;
  EXPECT_EQ(loaded_step(folder / "log"), -1);
  folder.write("log", "# collectives\n# loaded step 128 from memory of the nodes\n# step 3");
  EXPECT_EQ(loaded_step(folder / "log"), 128);
  folder.write("log", "# loaded step ");
  EXPECT_EQ(loaded_step(folder / "log"), -1);
}

TEST(ChaosSigns, ReplicasAreCountedByTheCoordinatesInPages) {
  std::vector<observe::PageState> pages(4);
  EXPECT_EQ(replicas_of(pages).data, 0);
  for (std::size_t i = 0; i < pages.size(); ++i)
    pages[i].coordinates = "pp0 dp" + std::to_string(i / 2) + " tp" + std::to_string(i % 2);
  EXPECT_EQ(replicas_of(pages).data, 2);
  EXPECT_EQ(replicas_of(pages).of_stage, 4);
  EXPECT_EQ(replicas_of({}).of_stage, 0);
}

TEST(ChaosSigns, ACopyNeedsAnEmptyDirectoryAndACheckpoint) {
  const ScratchDirectory folder;
  const auto message = [&] {
    return trireme::message_of([&] { (void)corrupt_a_copy(folder / "run", folder / "copy", 1); });
  };
  EXPECT_THAT(message(), HasSubstr("there is no durable checkpoint to copy"));
  std::filesystem::create_directory(folder / "copy");
  folder.write("copy/file", "of the user");
  EXPECT_THAT(message(), HasSubstr("has to be a new or an empty directory"));
  EXPECT_EQ(folder.read("copy/file"), "of the user");
}

}  // namespace
}  // namespace trireme::supervisor::test
