// The command line: values, mistakes, configuration files, help, and the reference of all options.
#include "trireme/options/command_line.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/version.h"

#include "tests/options/gpt_command_line.h"
#include "tests/support/recorded_problems.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test_name.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

enum class Colour { red, green };

/// A command line with one option of each kind.
struct Example {
  Index size = 1;
  double rate = 0.5;
  bool fast = false;
  std::string name = "none";
  std::vector<std::string> files;
  Colour colour = Colour::red;
  CommandLine command{"example", "An example."};

  Example() {
    command.group("Numbers");
    command.whole("--tensor-size,--ts", size, at_least(1), "a size");
    command.real("--rate", rate, {0, 1, true, false}, "a rate");
    command.group("Words");
    command.flag("--fast", fast, "a flag");
    command.text("--name", name, "NAME", "a name");
    command.list("--files", files, "FILE...", "some files");
    command.choice<Colour>("--colour", colour, {{"red", Colour::red}, {"green", Colour::green}},
                           "a colour");
    command.config_file();
  }
  std::vector<std::string> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "example");
    test::RecordedProblems problems;
    command.parse(static_cast<int>(words.size()), words.data(), problems);
    return problems.all();
  }
};

TEST(CommandLine, SetsEveryKindOfOption) {
  Example e;
  EXPECT_THAT(e.parse({"--ts", "4", "--rate=1e-3", "--fast", "--name", "a b", "--files", "0.3", "x",
                       "y", "--colour", "green"}),
              ElementsAre());
  EXPECT_EQ(e.size, 4);
  EXPECT_EQ(e.rate, 1e-3);
  EXPECT_TRUE(e.fast);
  EXPECT_EQ(e.name, "a b");
  EXPECT_THAT(e.files, ElementsAre("0.3", "x", "y"));
  EXPECT_EQ(e.colour, Colour::green);
  EXPECT_TRUE(e.command.given("--tensor-size"));
  EXPECT_FALSE(e.command.given("--config"));
}

TEST(CommandLine, TakesAListOfAsManyFilesAsAShellGives) {
  Example e;
  std::vector<const char*> words(20000, "file.txt.gz");
  words.insert(words.begin(), "--files");
  EXPECT_THAT(e.parse(words), ElementsAre());
  EXPECT_EQ(e.files.size(), 20000u);
}

TEST(CommandLine, ListsEveryOptionWithTheValueInForce) {
  Example e;
  e.parse({"--ts", "4", "--fast"});
  EXPECT_THAT(e.command.configuration(),
              ElementsAre(Pair("--tensor-size", "4"), Pair("--rate", "0.5"), Pair("--fast", "true"),
                          Pair("--name", "none"), Pair("--files", ""), Pair("--colour", "red"),
                          Pair("--config", "")));
}

TEST(CommandLine, ReportsEveryMistakeAtOnce) {
  Example e;
  EXPECT_THAT(e.parse({"--tensor-sise", "4", "--rate", "2", "--ts", "x", "--colour", "gren",
                       "stray", "--name"}),
              testing::UnorderedElementsAre(
                  "unknown option --tensor-sise; did you mean --tensor-size?",
                  "unexpected argument 'stray'; options begin with --",
                  "--tensor-size x: expected a whole number >= 1",
                  "--rate 2: expected a number > 0 and <= 1",
                  "--colour gren: expected one of {red,green}; did you mean green?",
                  "--name needs a value: NAME"));
}

TEST(CommandLine, NamesAnOptionOfOneLetterAsItIsTyped) {
  for (const auto& [name, shown] :
       {std::pair{"-n", "-n 0: "}, {"--ranks", "--ranks 0: "}, {"--np", "--ranks 0: "}}) {
    Index ranks = 1;
    CommandLine command("ranks", "");
    command.whole("--ranks,--np,-n", ranks, at_least(1), "how many");
    test::RecordedProblems problems;
    const char* words[] = {"ranks", name, "0"};
    command.parse(3, words, problems);
    EXPECT_THAT(problems.all(), ElementsAre(testing::StartsWith(shown)));
  }
}

TEST(CommandLine, RejectsNumbersThatAreNotWhatTheySeem) {
  for (const char* word : {"1.5", "1e3", "0x10", "99999999999999999999", "1 ", "-3"})
    EXPECT_EQ(Example().parse({"--ts", word}).size(), 1u) << word;
  for (const char* word : {"nan", "inf", "1e999", "0", "0.5x"})
    EXPECT_EQ(Example().parse({"--rate", word}).size(), 1u) << word;
}

TEST(CommandLine, SizesHaveUnitsOfPowersOf1024) {
  Index bytes = 0;
  const auto problem = [&](const char* word) {
    CommandLine command("sizes", "");
    command.size("--buffer", bytes, 2048, "bytes");
    EXPECT_EQ(command.configuration().front().second, "");  // 0: not set
    test::RecordedProblems problems;
    const char* words[] = {"sizes", "--buffer", word};
    command.parse(3, words, problems);
    const std::string shown = command.configuration().front().second;
    bytes = 0;
    return problems.empty() ? shown : problems.all().front();
  };
  EXPECT_EQ(problem("2048"), "2K");
  EXPECT_EQ(problem("2049"), "2049");
  EXPECT_EQ(problem("512M"), "512M");
  EXPECT_EQ(problem("1024M"), "1G");
  EXPECT_EQ(problem("3T"), "3T");
  for (const char* word : {"", "M", "1.5G", "2g", "2GB", "2 G", "x", "-2K", "2KM"})
    EXPECT_THAT(problem(word), HasSubstr(*word ? "expected a size >= 2K: bytes, or" : "needs"));
  EXPECT_THAT(problem("1K"), HasSubstr("--buffer 1K: expected a size >= 2K"));
  EXPECT_THAT(problem("9999999999T"), HasSubstr("more than any memory"));
}

TEST(CommandLine, AFlagCanSwitchOff) {
  bool fast = true;
  CommandLine command("flags", "");
  command.flag_off("--no-fast", fast, "slow");
  EXPECT_THAT(command.configuration(), ElementsAre(Pair("--no-fast", "false")));
  test::RecordedProblems problems;
  const char* words[] = {"flags", "--no-fast"};
  command.parse(2, words, problems);
  EXPECT_FALSE(fast);
  EXPECT_THAT(command.configuration(), ElementsAre(Pair("--no-fast", "true")));
}

TEST(CommandLine, NamesTheNearestLegalNumber) {
  EXPECT_THAT(Example().parse({"--ts", "-2"}), ElementsAre(HasSubstr("the nearest is 1")));
}

TEST(CommandLine, AnOptionGivenTwiceIsAMistake) {
  EXPECT_THAT(Example().parse({"--ts", "1", "--tensor-size", "2"}),
              ElementsAre("--tensor-size 1 2: given 2 times, keep one"));
}

TEST(CommandLine, ReadsTomlAndTheCommandLineWins) {
  const ScratchDirectory folder;
  const std::string path =
      folder.write("a.toml", "ts = 3\nfast = true\n[words]\nfiles = [\"a\", \"b\"]\n");
  Example e;
  EXPECT_THAT(e.parse({"--config", path.c_str(), "--tensor-size", "5"}), ElementsAre());
  EXPECT_EQ(e.size, 5);
  EXPECT_TRUE(e.fast);
  EXPECT_THAT(e.files, ElementsAre("a", "b"));
}

TEST(CommandLine, NamesTheFileInWhichAMistakeStands) {
  const ScratchDirectory folder;
  const std::string path =
      folder.write("wrong.toml", "tensor-sizes = 3\nrate = 7\nconfig = \"other\"\n");
  const auto problems = Example().parse({"--config", path.c_str()});
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_THAT(problems, testing::Each(HasSubstr(path)));
  EXPECT_THAT(problems[0],
              HasSubstr(":1: unknown option tensor-sizes; did you mean --tensor-size?"));
  EXPECT_THAT(problems[1], HasSubstr(":3: config: one file cannot name another"));
  EXPECT_THAT(problems[2], HasSubstr("--rate 7 (in " + path + ":2): expected a number > 0"));
  const std::string missing = folder / "missing.toml";
  EXPECT_THAT(Example().parse({"--config", missing.c_str()}),
              ElementsAre("--config " + missing + ": cannot be read: No such file or directory"));
}

struct WrongFile {
  std::string text;
  std::vector<std::string> problems;  // FILE is replaced by the path
};
void PrintTo(const WrongFile& wrong, std::ostream* out) { *out << test::in_test_name(wrong.text); }

class HostileFile : public testing::TestWithParam<WrongFile> {};
TEST_P(HostileFile, IsRefusedWithFileLineKeyAndWhatWouldBeRight) {
  const ScratchDirectory folder;
  const std::string path = folder.write("a.toml", GetParam().text);
  std::vector<std::string> expected = GetParam().problems;
  for (std::string& problem : expected)
    problem.replace(problem.find("FILE"), std::string("FILE").size(), path);
  EXPECT_THAT(Example().parse({"--config", path.c_str()}), testing::ElementsAreArray(expected));
}
const WrongFile wrong_files[] = {
    {"[a]\nrate = 0.1\n[b]\nrate = 0.2\n",
     {"FILE:4: rate is given twice, first on line 2; keep one"}},
    {"ts = 2\ntensor-size = 1\n",
     {"FILE:2: tensor-size and ts of line 1 are one option, given twice; keep one"}},
    {"name\n", {"FILE:1: name has no value; write name = VALUE, or name = true for a flag"}},
    {"ts\n", {"FILE:1: ts has no value; write ts = VALUE, or ts = true for a flag"}},
    {"fast", {"FILE:1: fast has no value; write fast = VALUE, or fast = true for a flag"}},
    {"files = [\"D\"",
     {"FILE:1: the '[' of files is not closed: ',' or ']' is expected on line 1, not the end of "
      "the file"}},
    {"files = [\"D\"\nrate = 0.1\n",
     {"FILE:1: the '[' of files is not closed: ',' or ']' is expected on line 2, not 'rate = "
      "0.1'"}},
    {"[[rate]]\nx = 1\n",
     {"FILE:1: [[rate]] begins a list of sections, which no option takes; write [name], or key = "
      "value",
      "FILE:2: unknown option x; --help lists all"}},
    {"RATE = 0.1", {"FILE:1: unknown option RATE; did you mean --rate? Keys are lower case"}},
    {"rate = [1e-1, 2e-1]", {"--rate 1e-1 2e-1 (in FILE:1): takes one value, not a list"}},
    {"rate = [1e-1]", {"--rate 1e-1 (in FILE:1): takes one value, not a list"}},
    {"rate = 1e-1 garbage", {"FILE:1: 'garbage' follows rate; a line holds one key = value"}},
    {"ts = 3.0", {"--tensor-size 3.0 (in FILE:1): expected a whole number >= 1"}},
    {"ts = \"many\"", {"--tensor-size many (in FILE:1): expected a whole number >= 1"}},
    {"ts = -0x10",
     {"FILE:1: ts = -0x10: expected a number, true or false; a text must be quoted: "
      "\"-0x10\""}},
    {"name = true", {"--name true (in FILE:1): is a text, which must be quoted: \"true\""}},
    {"name = 5", {"--name 5 (in FILE:1): is a text, which must be quoted: \"5\""}},
    {"name = \"\"", {"--name (in FILE:1) needs a value: NAME"}},
    {"files = []", {"--files (in FILE:1) needs a value: FILE..."}},
    {"fast = \"maybe\"", {"--fast maybe (in FILE:1): a flag is true or false"}},
    {"colour = red",
     {"FILE:1: colour = red: expected a number, true or false; a text must be quoted: \"red\""}},
    {"config = \"b\"", {"FILE:1: config: one file cannot name another"}},
};
INSTANTIATE_TEST_SUITE_P(Table, HostileFile, testing::ValuesIn(wrong_files));

TEST(CommandLine, AFileMayBeginWithAByteOrderMarkAndUseAllNumbersOfToml) {
  const ScratchDirectory folder;
  Example e;
  const std::string path = folder.write("a.toml", "\xEF\xBB\xBFts = 0x10\r\nrate = 2_5e-2\r\n");
  EXPECT_THAT(e.parse({"--config", path.c_str()}), ElementsAre());
  EXPECT_EQ(e.size, 16);
  EXPECT_EQ(e.rate, 0.25);
}

TEST(CommandLine, AFileThatIsNoConfigurationIsRefusedWhole) {
  const ScratchDirectory folder;
  EXPECT_THAT(Example().parse({"--config", folder.path().c_str()}),
              ElementsAre("--config " + folder.path() + ": is a directory; a TOML file is needed"));
  const std::string large = folder.write("large", std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(
      Example().parse({"--config", large.c_str()}),
      ElementsAre("--config " + large + ": has more than 1M bytes; is it a configuration?"));
}

TEST(CommandLine, OfAFileFullOfMistakesTheFirstAreListed) {
  const ScratchDirectory folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += "key" + std::to_string(i) + " = " + std::to_string(i) + "\n";
  const std::string path = folder.write("many.toml", text);
  const auto problems = Example().parse({"--config", path.c_str()});
  ASSERT_EQ(problems.size(), 21u);
  EXPECT_EQ(problems[19], path + ":20: unknown option key19; --help lists all");
  EXPECT_EQ(problems[20], path + ": and 19980 more problems");
}

TEST(CommandLine, LongWordsAreShownShort) {
  const ScratchDirectory folder;
  const std::string path =
      folder.write("long.toml", "ts = \"" + std::string(900'000, 'x') + "\"\n");
  const auto problems =
      Example().parse({"--config", path.c_str(), std::string(100'000, 'y').c_str()});
  ASSERT_EQ(problems.size(), 2u);
  for (const std::string& problem : problems) EXPECT_LE(problem.size(), 400u);
}

TEST(CommandLine, AnEqualsSignOfItsOwnIsNamed) {
  Example e;
  EXPECT_THAT(e.parse({"--rate", "=", "0.25"}),
              ElementsAre("write --rate 0.25, without '='; or --rate=0.25"));
}

TEST(CommandLine, EffectiveConfigurationMarksWhatWasGiven) {
  Example e;
  e.parse({"--ts", "4"});
  EXPECT_EQ(e.command.effective(),
            "Numbers: tensor-size 4*, rate 0.5\n"
            "Words: fast false, name none, files -, colour red, config -");
}

TEST(CommandLine, EffectiveConfigurationFitsTheColumnsThatThereAre) {
  const GptCommandLine line("--model llama-1b --global-batch-size 1024 --bf16", 8);
  const std::string whole = line.command.effective(1 << 20);
  for (int columns = 66; columns < 200; ++columns) {
    std::istringstream lines(line.command.effective(columns));
    std::string all;
    for (std::string each; std::getline(lines, each);) {
      EXPECT_LE(std::ssize(each), columns) << each;
      const bool continues = each.starts_with("    ");
      all += !continues ? "\n" + each : (all.ends_with(":") ? " " : ", ") + each.substr(4);
    }
    EXPECT_EQ(all, "\n" + whole);
  }
}

TEST(CommandLine, OptionsThatMayDifferAreNotCommonToAllRanks) {
  Example e;
  EXPECT_THAT(e.command.common(), Not(Contains(Pair("--config", testing::_))));
  EXPECT_THAT(e.command.common(), Contains(Pair("--name", "none")));
  e.command.may_differ("--name");
  EXPECT_THAT(e.command.common(), Not(Contains(Pair("--name", testing::_))));
  EXPECT_THAT(e.command.configuration(), Contains(Pair("--name", "none")));
  EXPECT_THROW(e.command.may_differ("--nme"), Error);
}

TEST(CommandLine, HelpShowsGroupsAliasesAndLegalValues) {
  Example e;
  test::RecordedProblems problems;
  const char* words[] = {"example", "--nonsense", "--help"};
  EXPECT_EQ(e.command.parse(3, words, problems), CommandLine::Outcome::help);
  EXPECT_TRUE(problems.empty());
  const std::string help = e.command.help();
  for (const char* part : {"Numbers:", "--tensor-size,--ts N", "{red,green}", "--help"})
    EXPECT_THAT(help, HasSubstr(part));
}

TEST(CommandLine, VersionStopsLikeHelp) {
  Example e;
  test::RecordedProblems problems;
  const char* words[] = {"example", "--nonsense", "--version"};
  const CommandLine::Outcome outcome = e.command.parse(3, words, problems);
  EXPECT_EQ(outcome, CommandLine::Outcome::version);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(e.command.text_of(outcome), std::string("trireme ") + version() + "\n");
  EXPECT_THAT(e.command.help(), HasSubstr("--version"));
}

TEST(CommandLine, AReferencePageHasEveryOptionAndTheTables) {
  Example e;
  e.command.table("Colours", {{"name", "wave"}, {"red", "700 nm"}});
  test::RecordedProblems problems;
  const char* words[] = {"example", "--nonsense", "--help-markdown"};
  EXPECT_EQ(e.command.parse(3, words, problems), CommandLine::Outcome::reference);
  EXPECT_TRUE(problems.empty());
  const std::string page = e.command.reference();
  for (const char* part :
       {"# Options of example\n", "\n## Numbers\n\n| option | default | meaning |\n|---|---|---|\n",
        "| `--tensor-size N`, `--ts` | `1` | a size |\n", "| `--fast` |  | a flag |\n",
        "| `--colour {red,green}` | `red` | a colour |\n",
        "\n## Colours\n\n| name | wave |\n|---|---|\n| red | 700 nm |\n"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_THAT(e.command.help(), HasSubstr("\nColours:\n  name wave\n  red  700 nm\n"));
}

TEST(CommandLine, ChosenValuesAreSetWhereNoneIsGiven) {
  Example e;
  test::RecordedProblems problems;
  const char* words[] = {"example", "--colour", "red"};
  e.command.parse(3, words, problems);
  e.command.choose({{"--colour", "green"}, {"--tensor-size", "4"}, {"--fast", "true"}});
  EXPECT_THAT(e.command.effective(), HasSubstr("tensor-size 4+"));
  EXPECT_THAT(e.command.effective(), HasSubstr("fast true+"));
  EXPECT_THAT(e.command.effective(), HasSubstr("colour red*"));
  EXPECT_FALSE(e.command.given("--tensor-size"));
  EXPECT_THROW(e.command.choose({{"--tensor-size", "none"}}), Error);
  EXPECT_THROW(e.command.choose({{"--nonsense", "1"}}), Error);
}

TEST(Nearest, FindsTyposAndPartsButNothingFarAway) {
  const std::vector<std::string> names{"--train-iters", "--tensor-model-parallel-size", "--lr"};
  EXPECT_EQ(nearest("--train-iter", names), "--train-iters");
  EXPECT_EQ(nearest("--tensor-model", names), "--tensor-model-parallel-size");
  EXPECT_EQ(nearest("--colour", names), "");
  EXPECT_EQ(nearest("--x", names), "");
  EXPECT_EQ(nearest("--rl", names), "--lr") << "two letters are swapped";
  EXPECT_EQ(nearest("--ar", {"--lora"}), "");
  EXPECT_EQ(nearest("--l", names), "--lr");
}

}  // namespace
}  // namespace trireme
