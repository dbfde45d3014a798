// Configuration files in TOML: values that are read, and mistakes with their lines.
#include "runtime/options/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_name.h"

namespace trireme::options {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// "key=value|value" of each line; "LINE: mistake" of a mistake.
std::vector<std::string> read(std::string_view text) {
  std::vector<std::string> all;
  for (const ConfigLine& line : read_config(text)) {
    std::string shown = line.mistake.empty() ? line.key + "=" : "";
    if (!line.mistake.empty()) shown = std::to_string(line.line) + ": " + line.mistake;
    if (line.mistake.empty())
      for (const std::string& value : line.values)
        shown += (&value == &line.values.front() ? "" : "|") + value;
    all.push_back(shown);
  }
  return all;
}

struct Case {
  std::string text;
  std::string read;  // what comes out, or is part of the mistake
};
void PrintTo(const Case& c, std::ostream* out) { *out << test::in_test_name(c.text); }

class GoodValue : public testing::TestWithParam<Case> {};
TEST_P(GoodValue, IsRead) {
  EXPECT_THAT(read("key = " + GetParam().text + "\n"), ElementsAre("key=" + GetParam().read));
  EXPECT_THAT(read("key=" + GetParam().text), ElementsAre("key=" + GetParam().read));
}
const Case good_values[] = {
    {"1", "1"},
    {"+1", "1"},
    {"-17", "-17"},
    {"0", "0"},
    {"1_000", "1000"},
    {"0x10", "16"},
    {"0xdead_BEEF", "3735928559"},
    {"0o17", "15"},
    {"0b101", "5"},
    {"9223372036854775808", "9223372036854775808"},  // the option says what is legal
    {"3.0", "3.0"},
    {"1e-3", "1e-3"},
    {"-1_0.2_5E+1_0", "-10.25e+10"},
    {"inf", "inf"},
    {"-nan", "-nan"},
    {"true", "true"},
    {"false # a comment", "false"},
    {"\"a # b = [c]\"", "a # b = [c]"},
    {"'C:\\new'", "C:\\new"},
    {R"("\t\"\\\u00e9\U0001F600")", "\t\"\\\xC3\xA9\xF0\x9F\x98\x80"},
    {"\"\"", ""},
    {"[]", ""},
    {"[ 1, 'a' ,2.5 ]", "1|a|2.5"},
    {"[\n  # first\n  \"a\",\r\n\n  \"b\", # last\n]", "a|b"},
};
INSTANTIATE_TEST_SUITE_P(Table, GoodValue, testing::ValuesIn(good_values));

class Mistake : public testing::TestWithParam<Case> {};
TEST_P(Mistake, IsNamedWithItsLineAndTheRestIsRead) {
  const auto lines = read("before = 1\n" + GetParam().text + "\nafter = 2\n");
  ASSERT_EQ(lines.size(), 3u) << testing::PrintToString(lines);
  EXPECT_THAT(lines[0], "before=1");
  EXPECT_THAT(lines[1], HasSubstr("2: "));
  EXPECT_THAT(lines[1], HasSubstr(GetParam().read));
  EXPECT_THAT(lines[2], "after=2");
}
const Case mistakes[] = {
    {"save", "save has no value; write save = VALUE, or save = true for a flag"},
    {"lr", "lr has no value"},
    {"lr # a comment", "lr has no value"},
    {"lr =", "lr has no value; write lr = VALUE"},
    {"lr 3", "'3' follows lr, where '=' is expected"},
    {"= 3", "'= 3' is no key"},
    {"\xEF\xBB\xBFlr = 3", "is no key"},  // only the first line may begin with a mark
    {"--lr = 3e-4.5", "--lr = 3e-4.5: expected a number"},
    {"a.b = 3", "a.b = 3: a key has no dots"},
    {"[[lr]]", "[[lr]] begins a list of sections"},
    {"[lr", "'[lr' has no ']'"},
    {"[]", "']' is no key"},
    {"[lr] = 3", "'= 3' follows [section]"},
    {"lr = 1e-3 garbage", "'garbage' follows lr; a line holds one key = value"},
    {"lr = \"a\" \"b\"", "'\"b\"' follows lr"},
    {"schedule = gpipe",
     "schedule = gpipe: expected a number, true or false; a text must be quoted: \"gpipe\""},
    {"lr = 1__0", "lr = 1__0: expected a number"},
    {"lr = _1", "expected a number"},
    {"lr = 1_", "expected a number"},
    {"lr = 010", "lr = 010: expected a number"},
    {"lr = .5", "lr = .5: expected a number"},
    {"lr = 5.", "lr = 5.: expected a number"},
    {"lr = 1e", "lr = 1e: expected a number"},
    {"lr = 0x", "lr = 0x: expected a number"},
    {"lr = 0xg", "lr = 0xg: expected a number"},
    {"lr = 0b12", "lr = 0b12: expected a number"},
    {"lr = -0x10", "lr = -0x10: expected a number"},
    {"lr = 0x-10", "lr = 0x-10: expected a number"},
    {"lr = 0xffffffffffffffff", "lr = 0xffffffffffffffff: expected a number"},
    {"lr = 1979-05-27", "lr = 1979-05-27: expected a number"},
    {"lr = True", "lr = True: expected a number, true or false"},
    {"lr = { a = 1 }", "no option takes lists in lists or tables in braces"},
    {"lr = \"abc", "the \" of \"abc is not closed"},
    {"lr = 'abc\"", "the ' of 'abc\" is not closed"},
    {"lr = \"\"\"abc\"\"\"", "a text over several lines is not read"},
    {"lr = \"\\q\"", "'\\q\"': known are \\n"},
    {"lr = \"\\ud800\"", "known are \\n"},
    {"lr = \"\\u12\"", "known are \\n"},
    {"lr = \"a\x01\"", "a control character (number 1)"},
    {"# \x7F", "a control character (number 127)"},
};
INSTANTIATE_TEST_SUITE_P(Table, Mistake, testing::ValuesIn(mistakes));

class OpenList : public testing::TestWithParam<Case> {};
TEST_P(OpenList, IsTheLastThingThatIsRead) {
  EXPECT_THAT(read("before = 1\n" + GetParam().text),
              ElementsAre("before=1", HasSubstr(GetParam().read)));
}
const Case open_lists[] = {
    {"data-path = [\"D\"", "2: the '[' of data-path is not closed"},
    {"data-path = [\"D\"\nlr = 1e-3\n",
     "2: the '[' of data-path is not closed: ',' or ']' is expected on line 3, not 'lr = 1e-3'"},
    {"data-path = [", "is not closed"},
    {"data-path = [ \"D\", ,]", "data-path has no value"},
    {"data-path = [[1]]", "no option takes lists in lists"},
};
INSTANTIATE_TEST_SUITE_P(Table, OpenList, testing::ValuesIn(open_lists));

TEST(ConfigFile, SectionsGroupAndBeginOnce) {
  EXPECT_THAT(read("a = 1\n[ one ]\n\tb = 2\r\n[\"two\".'three'] # more\r\n\nc = 3"),
              ElementsAre("a=1", "b=2", "c=3"));
  EXPECT_THAT(
      read("[one]\n[two]\n[one]\na = 1"),
      ElementsAre("3: section [one] begins again, first on line 1; keep its keys together", "a=1"));
}

TEST(ConfigFile, KeysAreAsWritten) {
  EXPECT_THAT(read("\"lr\" = 1\n'p p' = 2\nLR = 3\n1 = 4"),
              ElementsAre("lr=1", "p p=2", "LR=3", "1=4"));
}

TEST(ConfigFile, ABomAndAnEmptyFileSayNothing) {
  EXPECT_THAT(read(""), ElementsAre());
  EXPECT_THAT(read("\xEF\xBB\xBF"), ElementsAre());
  EXPECT_THAT(read("\n# only\n\r\n  \t"), ElementsAre());
  EXPECT_THAT(read("\xEF\xBB\xBFlr = 1"), ElementsAre("lr=1"));
}

TEST(ConfigFile, SaysWhichValuesAreListsAndTexts) {
  const auto lines = read_config("a = 1\nb = 'x'\nc = ['x']\nd = ['x', 1]");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_FALSE(lines[0].list || lines[0].quoted);
  EXPECT_TRUE(!lines[1].list && lines[1].quoted);
  EXPECT_TRUE(lines[2].list && lines[2].quoted);
  EXPECT_TRUE(lines[3].list && !lines[3].quoted);
}

TEST(ConfigFile, MistakesAreShortWhateverTheFileIs) {
  for (const std::string& text :
       {std::string(1'000'000, 'x'), "a = " + std::string(1'000'000, '['),
        "a = \"" + std::string(1'000'000, 'x'), "[" + std::string(1'000'000, 'x'),
        std::string(1'000'000, '='), "a = [" + std::string(1'000'000, '1')}) {
    const auto lines = read(text);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_LE(lines.front().size(), 500u);
  }
}

TEST(Shortened, CutsBetweenCharactersAndHidesControlCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened("ab\xC3\xA9", 3), "ab...");
  EXPECT_EQ(shortened("a\nb\x1B", 9), "a?b?");
}

}  // namespace
}  // namespace trireme::options
