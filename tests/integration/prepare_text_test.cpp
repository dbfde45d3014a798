// trireme data prepare and decode as programs: pipes, refusals, signals and kills; and a model of
// what they write.
#include <csignal>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class PrepareCommand : public testing::Test {
 protected:
  Outcome run(const std::string& words) const {
    return run_shell(trireme + words, folder_ / "log");
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  const std::string trireme = TRIREME_BIN_DIR "/trireme data ";
  const ScratchDirectory folder_;
  const std::string out_ = " --output " + (folder_ / "out");
};

TEST_F(PrepareCommand, ReadsPipesAndCompressedFilesAndPrintsTheirText) {
  const std::string plain = folder_.write("plain", "of a file\n");
  const std::string lines = folder_.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  ASSERT_EQ(run_shell("gzip -k " + lines, folder_ / "log").exit_code, 0);
  const Outcome made = run_shell("cat " + lines + " | " + trireme + "prepare --workers 3 --input " +
                                     plain + " " + lines + ".gz -" + out_,
                                 folder_ / "log");
  EXPECT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(made.output, HasSubstr("5 documents, 22 tokens of 22 bytes of text"));
  EXPECT_EQ(run("decode " + (folder_ / "out")).output, "of a file\n");
  EXPECT_EQ(run("decode --document 5 " + (folder_ / "out")).output, "two");
  EXPECT_EQ(run("decode --tokens 8:12 " + (folder_ / "out")).output, "e\non");
  EXPECT_THAT(run("inspect " + (folder_ / "out")).output, HasSubstr("tokenizer bytes"));
}

TEST_F(PrepareCommand, ShowsItsProgressOnATerminalAlone) {
  const std::string words = "prepare --input " + folder_.write("plain", "some text") + out_;
  const std::string line = (folder_ / "out") + ": 9 B of 9 B, 100 %";
  EXPECT_THAT(run(words).output, testing::Not(HasSubstr(line)));
  const Outcome shown = run_shell(
      "SHELL=/bin/sh script -qec '" + trireme + words + "' /dev/null < /dev/null", folder_ / "log");
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("\r\033[K" + line));
}

TEST_F(PrepareCommand, RefusesWithOneLineAndWritesNothing) {
  const std::string good = folder_.write("good", "text");
  const struct {
    std::string words;
    int exit_code;
    std::string part;
  } wrong[] = {
      {"prepare --append-eod --input " + good + out_, 64, "--append-eod: the tokenizer has no"},
      {"prepare --input - -" + out_, 64, "--input names standard input, -, more than once"},
      {"prepare --tokenizer " + (folder_ / "none") + " --input " + good + out_, 64,
       "--tokenizer: "},
      {"prepare --input " + (folder_ / "none") + out_, 64, "--input: "},
      {"prepare --input " + good + " --output " + (folder_ / "none/out"), 64, "--output "},
      {"prepare --format jsonl --input " + good + out_, 1, "good: line 1: this is not JSON"},
      {"decode --tokens 5:2 " + (folder_ / "out"), 64, "--tokens 5:2: expected A:B"},
      {"decode " + (folder_ / "out"), 64, "out.idx: cannot be opened"},
  };
  for (const auto& [words, exit_code, part] : wrong) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, exit_code) << words;
    EXPECT_THAT(outcome.output, HasSubstr(part)) << words;
    EXPECT_EQ(count(outcome.output, "\n"), 1) << outcome.output;
  }
  EXPECT_EQ(folder_.files(), 2u);  // good, log
}

// A sanitizer's own memory would count.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(PrepareCommand, NamesTheLineForWhichMemoryIsTooShort) {
  const std::string shorts = "{\"text\": \"a\"}\n", many(std::size_t{100} << 20, 'x');
  const std::string lines = folder_.write("a.jsonl", shorts + "{\"text\": \"" + many + "\"}\n");
  const Outcome outcome = run_shell(  // libraries and threads take a half
      "ulimit -v 300000; " + trireme + "prepare --workers 1 --input " + lines + out_,
      folder_ / "log");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("a.jsonl: line 2: no memory is left, after "));
  EXPECT_FALSE(exists("out.idx"));
}
#endif

TEST_F(PrepareCommand, ASignalRemovesItsFilesAndAKillLeavesNoIndex) {
  ASSERT_EQ(run_shell("mkfifo " + (folder_ / "pipe"), folder_ / "log").exit_code, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    BackgroundProcess job("exec " + trireme + "prepare --input " + (folder_ / "pipe") + out_,
                          folder_ / "job");
    ASSERT_TRUE(wait_until([&] { return exists("out.bin.tmp"); }));
    job.send(signal);
    const Outcome ended = job.wait();
    EXPECT_EQ(ended.exit_code, 128 + signal);
    if (signal != SIGKILL) {
      EXPECT_FALSE(exists("out.bin.tmp"));
      EXPECT_THAT(ended.output, HasSubstr("out.idx was not written"));
    }
    for (const char* name : {"out.bin", "out.idx", "out.json"}) EXPECT_FALSE(exists(name)) << name;
  }
  EXPECT_EQ(run("prepare --input " + folder_.write("good", "text") + out_).exit_code, 0);
  EXPECT_EQ(run("decode " + (folder_ / "out")).output, "text");
}

/// A temperature at which all tokens are about as probable: texts end soon, and have bytes that are
/// no characters.
TEST_F(PrepareCommand, ItsTokensTrainAModelThatWritesTextByTheSameTokenizer) {
  const std::string fixtures = TRIREME_SOURCE_DIR "/tests/data/tokenizer/fixture/";
  const std::string train_gpt = TRIREME_BIN_DIR "/train_gpt ";
  const auto gpt = [&](const std::string& words) {
    return run_shell(train_gpt + words, folder_ / "log");
  };
  ASSERT_EQ(run("prepare --append-eod --format text --tokenizer " + fixtures + "gpt2 --input " +
                fixtures + "gpt2/cases.json" + out_)
                .exit_code,
            0);
  EXPECT_THAT(run("decode " + (folder_ / "out")).output, HasSubstr("and --tokenizer is bytes"));
  const std::string checkpoints = folder_ / "run";
  const Outcome trained =
      gpt("--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 "
          "--train-iters 3 --data-path " +
          (folder_ / "out") + " --save " + checkpoints);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;

  const std::string load = "--load " + checkpoints + " --use-checkpoint-args --generate ";
  const std::string sampled = "--tokenizer " + fixtures + "gpt2 --temperature 1000 --prompts " +
                              folder_.write("prompts", "The\nA file\n\xC3\xA9\nb\nc\nd\n");
  const auto lines = [&](const std::string& tokens, const std::string& start = "",
                         const std::string& layout = "") {
    const Outcome made = run_shell(
        start + train_gpt + load + tokens + sampled + " --output " + (folder_ / "texts") + layout,
        folder_ / "log");
    EXPECT_EQ(made.exit_code, 0) << made.output;
    return folder_.read("texts");
  };
  const std::string texts = lines("600 ");
  std::istringstream rows(texts);
  int stopped = 0;
  for (std::string row; std::getline(rows, row);) {
    const nlohmann::json json = nlohmann::json::parse(row);
    const bool whole = json["tokens"].size() == 600;
    EXPECT_EQ(json["finish"], whole ? "length" : "stop");
    stopped += whole ? 0 : 1;
    EXPECT_THAT(json["text"].get<std::string>(), testing::Not(HasSubstr("<|endoftext|>")));
  }
  EXPECT_EQ(count(texts, "\n"), 6);
  EXPECT_GT(stopped, 0);
  EXPECT_EQ(lines("9 ", TRIREME_MPIRUN " --timeout 60 -np 2 ", " --pp 2"), lines("9 "));

  const Outcome printed = gpt(load + "99 " + sampled);
  EXPECT_THAT(printed.output, HasSubstr("901 tokens; texts end at token 900"));
  EXPECT_THAT(printed.output, HasSubstr("\nA file"));
  EXPECT_TRUE(nlohmann::json(printed.output).dump().size() > 0);  // throws where it is not UTF-8
  const Outcome other = gpt(load + "9 --tokenizer " + fixtures + "llama2");
  EXPECT_EQ(other.exit_code, 64) << other.output;
  EXPECT_THAT(other.output, HasSubstr("in the checkpoint; the file is " + fixtures + "llama2"));
  const Outcome none = gpt(load + "9");
  EXPECT_EQ(none.exit_code, 64) << none.output;
  EXPECT_THAT(none.output, HasSubstr("--generate 9 needs --tokenizer PATH"));
}

}  // namespace
}  // namespace trireme::test
