// By what faults are noticed that end no attempt.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/chaos/signs.h"
#include "launch/supervisor/machine/output.h"
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

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

TEST(ChaosSigns, AFailedSaveIsFoundInWhatTheLogGained) {
  const ScratchDirectory folder;
  const std::string log = folder.write("log", "# step 5 is not saved: it was before\n");
  LogTail tail(log);
  append(log, "# saved step 10\n");
  EXPECT_EQ(failed_save(tail.read()), "");
  append(log, "# step 15 is not saved: File too large");
  EXPECT_EQ(failed_save(tail.read()), "");  // the line is not whole
  append(log, "; training continues\n# s");
  EXPECT_EQ(failed_save(tail.read()), "# step 15 is not saved: File too large; training continues");
}

TEST(ChaosSigns, TheTailOfALogHasWhatWasWrittenBeforeAndAfterItWasRotated) {
  const ScratchDirectory folder;
  constexpr Index most_bytes = 20;
  LogTail none(folder / "log");
  OutputLog output(folder / "log", most_bytes);
  output.write("before\n");
  LogTail tail(folder / "log");
  output.write("one\n");
  EXPECT_EQ(tail.read(), "one\n");
  output.write("two\n");
  output.write("three, in a new file\n");
  EXPECT_EQ(tail.read(), "one\ntwo\nthree, in a new file\n");
  output.write("four, in a new file\n");  // may have the number of the first
  output.write("five, in a new file\n");
  EXPECT_EQ(tail.read(),
            "one\ntwo\nthree, in a new file\nfour, in a new file\nfive, in a new file\n");
  EXPECT_EQ(none.read(), "four, in a new file\nfive, in a new file\n");
}

TEST(ChaosSigns, TheStepThatWasLoadedIsInTheLog) {
  const ScratchDirectory folder;
  EXPECT_EQ(loaded_step(folder / "log"), -1);
  folder.write("log", "# collectives\n# loaded step 128 from memory of the nodes\n# step 3");
  EXPECT_EQ(loaded_step(folder / "log"), 128);
  folder.write("log", "# loaded step ");
  EXPECT_EQ(loaded_step(folder / "log"), -1);
  folder.write("log.1", "# loaded step 64\n");  // rotated
  EXPECT_EQ(loaded_step(folder / "log"), 64);
}

TEST(ChaosSigns, TheStepThatWasLoadedIsFoundWhileTheLogIsRotated) {
  const ScratchDirectory folder;
  const std::string log = folder.write("log", "# loaded step 128 from RUN\n");
  std::vector<std::string> reads;
  const auto read = [&](const std::string& path) {
    const std::string text = folder.read(std::filesystem::path(path).filename().string());
    reads.push_back(path);
    if (reads.size() == 1) std::filesystem::rename(log, log + ".1");
    return text;
  };
  EXPECT_EQ(loaded_step(log, read), 128);
  EXPECT_EQ(reads.size(), 2U);
}

TEST(ChaosSigns, SuspectedHostsAreThoseOfTheVerdict) {
  const ScratchDirectory folder;
  EXPECT_THAT(suspected_hosts(folder.path()), testing::IsEmpty());
  folder.write("verdict.json", R"({"sentence":"hang","certain":false,"hosts":["n1","n2"]})");
  EXPECT_THAT(suspected_hosts(folder.path()), testing::ElementsAre("n1", "n2"));
  folder.write("verdict.json", R"({"hosts":"n1"})");
  EXPECT_THAT(suspected_hosts(folder.path()), testing::IsEmpty());
  folder.write("verdict.json", "{\"ho");  // torn
  EXPECT_THAT(suspected_hosts(folder.path()), testing::IsEmpty());
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
