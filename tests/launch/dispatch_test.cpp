// Commands of one and of two words are found, and mistakes get the nearest one.
#include "launch/dispatch.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/version.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string first_word(int argc, char** argv) { return argc > 1 ? argv[1] : ""; }
int plan(int argc, char** argv) {
  const std::string word = first_word(argc, argv);
  return word == "model" ? 10 : word == "--help" ? 12 : 11;
}
int show(int argc, char** argv) { return first_word(argc, argv) == "model" ? 20 : 21; }
int run_inner(int, char**) { return 30; }

struct Result {
  int code;
  std::string output, errors;
};

Result call(std::vector<std::string> words) {
  const std::vector<Subcommand> commands = {
      {{"plan"}, "MODEL", "what a layout costs", plan},
      {{"plan", "inner"}, "", "of two words that begin with a whole command", run_inner},
      {{"checkpoint", "show"}, "DIR [--step N]", "what a step holds", show},
      {{"checkpoint", "list"}, "DIR", "steps of a run", show}};
  words.insert(words.begin(), "trireme");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  std::ostringstream output, errors;
  const int code = dispatch(commands, static_cast<int>(argv.size()), argv.data(), output, errors);
  return {code, output.str(), errors.str()};
}

TEST(Dispatch, FindsCommandsOfOneAndOfTwoWords) {
  EXPECT_EQ(call({"plan", "model"}).code, 10);
  EXPECT_EQ(call({"plan"}).code, 11);
  EXPECT_EQ(call({"plan", "--help"}).code, 12);  // the command's own help
  EXPECT_EQ(call({"help", "plan"}).code, 12);
  EXPECT_EQ(call({"plan", "inner"}).code, 30);
  EXPECT_EQ(call({"checkpoint", "show", "model"}).code, 20);
  EXPECT_EQ(call({"checkpoint", "list"}).code, 21);
}

TEST(Dispatch, SuggestsTheNearestCommand) {
  struct Case {
    std::vector<std::string> words;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {{}, "trireme: a command is missing\n"},
           {{"plna"}, "trireme: unknown command 'plna'; did you mean plan?\n"},
           {{"plna", "model"}, "trireme: unknown command 'plna'; did you mean plan?\n"},
           {{"plna", "--steps", "4"}, "trireme: unknown command 'plna'; did you mean plan?\n"},
           {{"chekpoint", "show"},
            "trireme: unknown command 'chekpoint show'; did you mean checkpoint show?\n"},
           {{"checkpoint", "lst", "DIR"},
            "trireme: unknown command 'checkpoint lst'; did you mean checkpoint list?\n"},
           {{"checkpoint"}, "trireme: 'checkpoint' needs a second word: one of show, list\n"},
           {{"checkpoint", "--step", "4"},
            "trireme: 'checkpoint' needs a second word: one of show, list\n"},
           {{"chekpoint"}, "trireme: unknown command 'chekpoint'; did you mean checkpoint?\n"},
           {{"help", "plna"}, "trireme: unknown command 'plna'; did you mean plan?\n"},
           {{"help", "chekpoint"},
            "trireme: unknown command 'chekpoint'; did you mean checkpoint?\n"},
           {{"help", "checkpoint", "lst"},
            "trireme: unknown command 'checkpoint lst'; did you mean checkpoint list?\n"},
           {{"plna", "-h"}, "trireme: unknown command 'plna'; did you mean plan?\n"},
           {{"plna", "--version"}, "trireme: unknown command 'plna'; did you mean plan?\n"},
           {{"zzzzzzzz", "yyyyyy"}, "trireme: unknown command 'zzzzzzzz yyyyyy'\n"}}) {
    const Result result = call(c.words);
    EXPECT_EQ(result.code, static_cast<int>(ExitCode::configuration));
    EXPECT_THAT(result.errors, StartsWith(c.message));
    EXPECT_EQ(result.output, "");
  }
}

TEST(Dispatch, ListsAfterAMistakeWhatMayBeMeant) {
  const std::string plan = "  trireme plan MODEL\n", list = "  trireme checkpoint list DIR\n";
  EXPECT_THAT(call({}).errors, AllOf(HasSubstr(plan), HasSubstr(list)));
  EXPECT_THAT(call({"checkpoint", "lst"}).errors, AllOf(HasSubstr(list), Not(HasSubstr(plan))));
  EXPECT_EQ(call({"zzzzzzzz"}).errors,
            "trireme: unknown command 'zzzzzzzz'\n`trireme --help` lists all commands\n");
}

TEST(Dispatch, PrintsUsageAndVersionWhenAsked) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"-h"},
                                                {"checkpoint", "--help"},
                                                {"help"},
                                                {"help", "checkpoint"}}) {
    const Result help = call(words);
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.errors, "");
    EXPECT_THAT(help.output, StartsWith("Usage: trireme COMMAND"));
    EXPECT_THAT(help.output, HasSubstr("  trireme checkpoint show DIR [--step N]\n"));
    const auto plan = HasSubstr("  trireme plan MODEL\n      what a layout costs\n");
    if (words[0] == "checkpoint" || words.back() == "checkpoint")
      EXPECT_THAT(help.output, Not(plan)) << "only commands that begin so";
    else
      EXPECT_THAT(help.output, plan);
  }
  const Result result = call({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.output, std::string("trireme ") + version() + "\n");
}

}  // namespace
}  // namespace trireme
