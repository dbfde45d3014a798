// What an attempt prints is kept within bounds, and read for what it says of the end.
#include "launch/supervisor/machine/output_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

TEST(OutputLog, KeepsTheLastTwoParts) {
  const ScratchDirectory folder;
  OutputLog log(folder / "output.log", 10);
  for (const char* text : {"aaaaaaaa", "bbbbbbbb", "c", "dddddddd"}) log.write(text);
  EXPECT_EQ(folder.read("output.log"), "dddddddd");
  EXPECT_EQ(folder.read("output.log.1"), "bbbbbbbbc");
  EXPECT_EQ(folder.files(), 2U);
}

TEST(Evidence, IsReadFromLinesHoweverTheyArrive) {
  const std::string text =
      "#   step        loss\n"
      "trireme[rank 2] error: no memory\n"
      "another error\n"
      "mpirun noticed that process rank 2 with PID 0 on node n1 exited on signal 9 (Killed).\n"
      "  Remote daemon: [[15405,0],2] on node n2\n";
  for (const std::size_t part : {text.size(), std::size_t{1}, std::size_t{7}}) {
    EvidenceReader reader;
    for (std::size_t at = 0; at < text.size(); at += part) reader.read(text.substr(at, part));
    EXPECT_EQ(reader.found().first_error, "trireme[rank 2] error: no memory");
    EXPECT_EQ(reader.found().rank_host, "n1");
    EXPECT_EQ(reader.found().lost_host, "n2");
  }
}

TEST(Evidence, OfAnEndThatTheLauncherMissedIsNoErrorOfTheProgram) {
  EvidenceReader reader;
  reader.read(
      "2. this process called \"init\", but exited without calling \"finalize\".\n"
      "error message you will receive is this one.\n");
  EXPECT_TRUE(reader.found().end_missed);
  EXPECT_EQ(reader.found().first_error,
            "2. this process called \"init\", but exited without calling \"finalize\".");
}

TEST(Evidence, SaysWhetherRanksHaveGpus) {
  EvidenceReader reader;
  EXPECT_EQ(reader.found().gpus_per_rank, -1);
  reader.read("device: GPU 0 H100, compute capability 9.0, 80.0 GB free\n");
  EXPECT_EQ(reader.found().gpus_per_rank, 1);
  reader.read("device: CPU AMD EPYC, avx2, 1 thread, 7.0 GB free\n");
  EXPECT_EQ(reader.found().gpus_per_rank, 0);
}

TEST(Evidence, OfASignalNamesTheRank) {
  const std::string noticed =
      "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 11.";
  EvidenceReader reader;
  reader.read("[n1:16904] Signal: Segmentation fault (11)\n" + noticed + "\n");
  EXPECT_EQ(reader.found().first_error, noticed);
  EvidenceReader other;
  other.read("trireme[rank 2] error: no memory\n" + noticed + "\n");
  EXPECT_EQ(other.found().first_error, "trireme[rank 2] error: no memory");
}

TEST(Evidence, OfMemoryThatRanOutIsWhatSlurmSays) {
  EvidenceReader reader;
  reader.read(
      "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have "
      "been OOM Killed.\n");
  EXPECT_EQ(reader.found().out_of_memory.substr(0, 18), "slurmstepd: error:");
}

}  // namespace
}  // namespace trireme::supervisor::test
