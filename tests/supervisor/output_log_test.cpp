// What an attempt prints is kept within bounds, and read for what it says of the end.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/machine/output.h"
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

TEST(Evidence, OfASignalNamesTheRank) {
  const std::string noticed =
      "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 11 (Segmentation "
      "fault).\n";
  for (const char* before : {"[n1:16904] *** Process received signal ***\n[n1:16904] Signal: "
                             "Segmentation fault (11)\n[n1:16904] *** End of error message ***\n",
                             "", "trireme[rank 2] error: no memory\n"}) {
    EvidenceReader reader;
    reader.read(before + noticed);
    EXPECT_EQ(reader.found().dead_rank, 3);
    EXPECT_EQ(reader.found().dead_signal, SIGSEGV);
    EXPECT_EQ(reader.found().rank_host, "n1");
    const bool says_why = std::string(before).starts_with("trireme");
    EXPECT_EQ(reader.found().first_error, says_why ? "trireme[rank 2] error: no memory" : "");
  }
}

const std::string box_rule = std::string(74, '-') + "\n";

TEST(Evidence, OfAConfigurationIsTheFirstProblemAndNotItsHeading) {
  EvidenceReader reader;
  reader.read(
      "trireme: this configuration cannot run: 2 problems\n"
      "  - --tp 3 does not divide the 4 ranks of this job; legal: 1, 2, 4\n"
      "  - --lr -1 must be positive\n");
  EXPECT_EQ(reader.found().first_error,
            "--tp 3 does not divide the 4 ranks of this job; legal: 1, 2, 4 (the first of 2 "
            "problems)");
  EvidenceReader one;
  one.read("trireme: this configuration cannot run: 1 problem\n  - --lr -1 must be positive\n");
  EXPECT_EQ(one.found().first_error, "--lr -1 must be positive");
}

TEST(Evidence, OfWhatMpirunRefusesHasTheRemedy) {
  struct Case {
    const char *printed, *remedy;
  };
  for (const auto& [printed, remedy] : std::vector<Case>{
           {"There are not enough slots available in the system to satisfy the 3\nslots that",
            "--oversubscribe"},
           {"mpirun has detected an attempt to run as root.\n\nRunning as root is",
            "OMPI_ALLOW_RUN_AS_ROOT=1"},
           {"The SLURM process starter for OpenMPI was unable to locate a\nusable \"srun\"",
            "unset the variables SLURM_*"},
           {"While trying to determine what resources are available, the SLURM\nresource",
            "unset the variables SLURM_*"},
           {"mpirun was unable to find the specified executable file, and therefore\ndid not",
            "the same path on each"},
           {"mpirun was unable to launch the specified application as it could not\nchange",
            "the working directory"},
           {"A request was made to bind to that would result in binding more\nprocesses than",
            "--bind-to none"}}) {
    EvidenceReader reader;
    reader.read(box_rule + printed + "\n" + box_rule +
                "[vm:7] [[1,0],0] ORTE_ERROR_LOG: Not found in file base.c at line 193\n" +
                box_rule + "An internal error has occurred in ORTE:\n" + box_rule);
    EXPECT_THAT(reader.found().refusal, testing::HasSubstr(remedy));
    EXPECT_EQ(reader.found().first_error, "");
  }
}

TEST(Evidence, OfAnOptionThatMpirunDoesNotKnowNamesMpirun) {
  EvidenceReader reader;
  reader.read("mpirun: Error: unknown option \"--nosuch\"\nType 'mpirun --help' for usage.\n");
  EXPECT_EQ(reader.found().refusal,
            "mpirun: Error: unknown option \"--nosuch\", which --mpirun has");
}

// srun ends before any rank, and mpirun takes its daemons for lost.
TEST(Evidence, OfASlurmJobThatIsGoneIsARefusal) {
  const auto refusal = [](const std::string& said) {
    EvidenceReader reader;
    reader.read("srun: error: " + said +
                "\nsrun: Check SLURM_JOB_ID environment variable. Expired or invalid job 911\n" +
                box_rule + "An ORTE daemon has unexpectedly failed after launch and before\n" +
                "communicating back to mpirun.\n" + box_rule);
    EXPECT_TRUE(reader.found().daemon_lost);
    return reader.found().refusal;
  };
  for (const char* said :
       {"Unable to confirm allocation for job 911: Invalid job id specified",
        "Slurm job 911 has expired", "SLURM job 911 has expired.",
        "Unable to create step for job 911: Job/step already completing or completed"})
    EXPECT_EQ(refusal(said),
              "the Slurm job 911 of the environment does not exist or has ended, so srun starts no "
              "ranks: unset the variables SLURM_*, or start inside of a job");
  for (const char* passing :
       {"Unable to confirm allocation for job 911: Socket timed out on send/recv operation",
        "Unable to create step for job 911: Requested nodes are busy"})
    EXPECT_EQ(refusal(passing), "");
}

TEST(Evidence, OfAHostThatDoesNotAnswerIsWhatTheRemoteShellSays) {
  for (const char* box : {"ORTE was unable to reliably start one or more daemons.\n"
                          "* the inability to write startup files into /tmp\n",
                          "An ORTE daemon has unexpectedly failed after launch and before\n"
                          "communicating back to mpirun.\n"}) {
    EvidenceReader reader;
    reader.read("ssh: Could not resolve hostname nosuch: Name or service not known\r\n" + box_rule +
                box + box_rule + box_rule +
                "ORTE does not know how to route a message to the specified daemon\n"
                "in your environment. We apologize for the problem.\n" +
                box_rule);
    EXPECT_TRUE(reader.found().daemon_lost);
    EXPECT_EQ(reader.found().last_line,
              "ssh: Could not resolve hostname nosuch: Name or service not known");
  }
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
