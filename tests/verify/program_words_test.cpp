// How trireme verify changes the words of a program.
#include "launch/verify/program_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::verify {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(PlainWords, LeaveOutWhatSavesLoadsReportsAndEndsAJob) {
  EXPECT_THAT(plain_words({"train", "--tp", "2", "--save", "run", "--load=run", "--async-save",
                           "--skip-samples", "1-2", "4-5", "--bf16", "--eval-interval", "10",
                           "--train-iters", "1000", "--lr", "1e-3", "--min-lr=1e-5"},
                          ""),
              ElementsAre("train", "--tp", "2", "--bf16", "--lr", "1e-3"));
  EXPECT_THAT(plain_words({"train", "--generate", "5", "--tokenizer", "DIR", "--bf16"}, ""),
              ElementsAre("train", "--bf16"));
}

TEST(PlainWords, LeaveOutTheSameOfAFile) {
  const ScratchDirectory folder;
  const std::string config =
      folder.write("c.toml",
                   "[a]\nsave = \"run\" # here\ntp = 2\ndata-path = [\"a \\\"b\\\"\",\n \"c\"]\n"
                   "skip-samples = [\"1-2\",\n \"3-4\"]\nbf16 = true\n");
  const Words words = plain_words({"train", "--config", config}, folder / "plain.toml");
  EXPECT_THAT(words, ElementsAre("train", "--config", folder / "plain.toml"));
  EXPECT_EQ(folder.read("plain.toml"),
            "tp = 2\ndata-path = [\"a \\\"b\\\"\", \"c\"]\nbf16 = true\n");
  const Words wide = without_options(words, {"--bf16"}, folder / "wide.toml");
  EXPECT_THAT(wide, ElementsAre("train", "--config", folder / "wide.toml"));
  EXPECT_THAT(folder.read("wide.toml"), Not(HasSubstr("bf16")));
}

TEST(PlainWords, KeepAFileWithAMistakeForTheProgramToReport) {
  EXPECT_EQ(plain_config("save = 'run'\nlr = \n"), "save = 'run'\nlr = \n");
}

TEST(PlainWords, TakeNoModelFromACheckpoint) {
  EXPECT_THAT(message_of([] {
                plain_words({"train", "--use-checkpoint-args"}, "");
              }),
              HasSubstr("--use-checkpoint-args: verify begins with new values"));
}

TEST(PlainWords, TakeNoLayoutThatTheJobChooses) {
  EXPECT_THAT(message_of([] {
                plain_words({"train", "--plan=auto", "--bf16"}, "");
              }),
              HasSubstr("--plan: verify proves one layout; give its options"));
  EXPECT_THAT(message_of([] { plain_config("plan = \"auto\"\n"); }),
              HasSubstr("--plan in the file of --config: verify proves one layout"));
}

TEST(WordsOfOneRank, HaveNoLayoutOfSeveral) {
  const Words words = one_rank_words(
      {"train", "--tp", "4", "--data-parallel-shares", "2,1", "--schedule", "interleaved"}, "");
  EXPECT_EQ(supervisor::option_of(words, "--tensor-model-parallel-size"), "1");
  EXPECT_EQ(supervisor::option_of(words, "--schedule"), "1f1b");
  for (const char* word : {"--tp", "4", "2,1", "interleaved"})
    EXPECT_THAT(words, Not(Contains(word)));
}

TEST(WordsOfAJob, AreTwoFullStepsThatAreSaved) {
  const Words words = words_of({.program = {"train", "--num-layers", "2"}, .folder = "/d/job-1"});
  for (const char* word : {"--train-iters", "2", "/d/job-1/saved", "/d/job-1/dump", "constant"})
    EXPECT_THAT(words, Contains(word));
  EXPECT_THAT(words, Not(Contains("--load")));
}

TEST(WordsOfAJob, ThatResumesLoadStepOneAndDumpNothing) {
  const Words words = words_of({.program = {"train"}, .folder = "/d/job-4", .load = "/d/job-2"});
  EXPECT_EQ(supervisor::option_of(words, "--load"), "/d/job-2/saved");
  EXPECT_EQ(supervisor::option_of(words, "--ckpt-step"), "1");
  EXPECT_THAT(words, Not(Contains("--dump-tensors")));
}

TEST(ReasonOfAFailure, IsWhatTheProgramSaysAndNotWhatMpirunSaysOfIt) {
  const std::string rule = std::string(74, '-') + "\n";
  const std::string ended = rule + "Primary job  terminated normally, but 1 process\n" + rule;
  EXPECT_EQ(reason_in("# data\ntrireme: it cannot run: 1 problem\n  - --tp 3\n" + ended),
            "trireme: it cannot run: 1 problem\n  - --tp 3");
  EXPECT_EQ(reason_in("ssh: no route\n" + ended), "ssh: no route");
  EXPECT_EQ(reason_in("error: \033[2J\n" + ended), "error: \\x1b[2J");
  EXPECT_THAT(reason_in(rule + "mpirun has detected an attempt to run as root.\n" + rule),
              HasSubstr("OMPI_ALLOW_RUN_AS_ROOT=1"));
}

TEST(FactsOfAProgram, AreTheLineAboutTheseRanks) {
  const Facts facts = facts_in(
      "hello\n{\"ranks\":4,\"legal\":true,\"data\":1,\"pipeline\":2,\"tensor\":2,\"rank_bytes\":7,"
      "\"configuration\":{\"--bf16\":\"true\",\"--num-layers\":\"12\"}}\n",
      4);
  EXPECT_TRUE(facts.legal);
  EXPECT_EQ(facts.mesh().describe(), "pipeline 2 x data 1 x tensor 2 = 4 ranks");
  EXPECT_EQ(facts.rank_bytes, 7);
  EXPECT_TRUE(facts.bf16());
  EXPECT_EQ(facts.number("--num-layers"), 12);
  EXPECT_EQ(facts.number("--other"), 1);
  EXPECT_THAT(message_of([] { facts_in("usage: cat\n", 4); }),
              HasSubstr("does not answer --check-layout 4"));
}

TEST(FactsOfAProgram, HaveAllProblems) {
  const Facts facts =
      facts_in("{\"ranks\":3,\"legal\":false,\"problems\":[\"one\",\"other\"]}\n", 3);
  EXPECT_FALSE(facts.legal);
  EXPECT_THAT(facts.problems, ElementsAre("one", "other"));
}

}  // namespace
}  // namespace trireme::verify
