// Prompts from the command line and from files.
#include "trireme/options/prompts.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/prepare/encoder.h"
#include "tests/options/gpt_command_line.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Opened {
  std::vector<std::string> texts, problems;
};

Opened open(const std::string& options) {
  GptCommandLine line("--generate 5 --seq-length 8 " + options, 1);
  Opened opened;
  const std::unique_ptr<data::TextEncoder> bytes = data::byte_encoder();
  for (const Prompt& prompt : open_prompts(line.gpt, bytes.get(), line.problems)) {
    opened.texts.push_back(prompt.text);
    EXPECT_EQ(bytes->decode(prompt.tokens), prompt.text);
  }
  opened.problems = line.problems.all();
  return opened;
}

class Prompts : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return folder_ / name;
  }
  ScratchDirectory folder_;
};

TEST_F(Prompts, AreTheLinesOfAFile) {
  const Opened opened = open("--prompts " + file("p.txt", "one\n{\"a\"}\n\xff\n"));
  EXPECT_THAT(opened.texts, ElementsAre("one", "{\"a\"}", "\xff"));
  EXPECT_THAT(opened.problems, IsEmpty());
}

TEST_F(Prompts, OfJsonLinesMayHaveLineEnds) {
  const Opened opened =
      open("--prompts " + file("p.jsonl", "\"a\\nb\"\n{\"id\": 1, \"prompt\": \"c\"}\n"));
  EXPECT_THAT(opened.texts, ElementsAre("a\nb", "c"));
  EXPECT_THAT(opened.problems, IsEmpty());
}

TEST_F(Prompts, AreWithoutTheLineEndsAndTheMarkOfOtherSystems) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_THAT(open("--prompts " + file("p.txt", "one\r\ntwo\r\nthr\ree")).texts,
              ElementsAre("one", "two", "thr\ree"));
  EXPECT_THAT(open("--prompts " + file("p.txt", mark + "one\n" + mark + "a\n")).texts,
              ElementsAre("one", mark + "a"));
  EXPECT_THAT(open("--prompts " + file("p.jsonl", mark + "\"one\"\r\n\"two\"\r\n")).texts,
              ElementsAre("one", "two"));
  EXPECT_THAT(open("--prompts " + file("p.txt", "a\r\n\r\n")).problems,
              ElementsAre(HasSubstr("p.txt:2: is empty")));
}

TEST_F(Prompts, OfJsonLinesAreKnownByTheNamesThatDataPrepareKnows) {
  for (const char* name : {"p.jsonl", "p.ndjson", "p.json"})
    EXPECT_THAT(open(str("--prompts ", file(name, "{\"prompt\": \"a\"}\n"))).texts,
                ElementsAre("a"))
        << name;
}

TEST_F(Prompts, OfJsonLinesMayHaveBlankLinesBetweenThem) {
  const Opened opened = open("--prompts " + file("p.jsonl", "\n\"a\"\n \t\r\n\"b\"\n\n"));
  EXPECT_THAT(opened.texts, ElementsAre("a", "b"));
  EXPECT_THAT(opened.problems, IsEmpty());
  EXPECT_THAT(open("--prompts " + file("p.jsonl", "\"a\"\n\n7\n")).problems,
              ElementsAre(HasSubstr("p.jsonl:3: is no JSON string")));
  EXPECT_THAT(open("--prompts " + file("p.jsonl", "\n\n")).problems,
              ElementsAre(HasSubstr("p.jsonl: has no prompt; give one a line")));
}

TEST_F(Prompts, ThatCannotBeContinuedAreNamedByTheirLines) {
  EXPECT_THAT(open("--prompts " + file("p", "a\n\n123456789\n")).problems,
              ElementsAre(HasSubstr("p:2: is empty"),
                          HasSubstr("p:3: has 9 tokens, more than --seq-length 8")));
  EXPECT_THAT(open("--prompts " + file("p.jsonl", "{}\n7\n{\n")).problems,
              ElementsAre(HasSubstr("p.jsonl:1: is no JSON string"), HasSubstr("p.jsonl:2: is no"),
                          HasSubstr("p.jsonl:3: ")));
  EXPECT_THAT(open("--prompts " + file("empty", "")).problems,
              ElementsAre(HasSubstr("empty: has no prompt")));
  EXPECT_THAT(open("--prompts " + (folder_ / "none")).problems,
              ElementsAre(HasSubstr("none: No such file")));
  EXPECT_THAT(open("--prompts " + folder_.path()).problems,
              ElementsAre(HasSubstr("Is a directory")));
  EXPECT_THAT(open("--prompts " + file("many", std::string(8, '\n'))).problems,
              testing::AllOf(testing::SizeIs(6), testing::Contains(HasSubstr("3 more lines"))));
  EXPECT_THAT(open("--prompt 123456789").problems,
              ElementsAre("--prompt has 9 tokens, more than --seq-length 8"));
}

}  // namespace
}  // namespace trireme
