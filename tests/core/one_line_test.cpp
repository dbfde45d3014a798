#include "runtime/core/text/one_line.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(OneLine, ShowsControlCharactersAndLeavesTheRest) {
  EXPECT_EQ(one_line("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(one_line("Größe 3 \"x\""), "Größe 3 \"x\"");
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("\xC2\x9B"
                     "2J \xC2\xA0."),
            "\\xc2\\x9b2J \xC2\xA0.");  // of Unicode
  EXPECT_EQ(one_line("\xC2"), "\xC2");
  EXPECT_EQ(printable("a\tb\nc\x1b[2J\r"), "a\tb\nc\\x1b[2J\\x0d");
}

TEST(OneLine, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(one_line("abcd", 4), "abcd");
  EXPECT_EQ(one_line("abcde", 4), "abcd... (5 bytes)");
  EXPECT_EQ(one_line("abcöe", 4), "abc... (6 bytes)");
  EXPECT_EQ(one_line(std::string(8, '\x80'), 4), "... (8 bytes)");
}

}  // namespace
}  // namespace trireme
