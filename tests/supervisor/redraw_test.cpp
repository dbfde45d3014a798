// Text on a terminal that is shown anew in its own place.
#include <gtest/gtest.h>

#include "launch/supervisor/machine/terminal.h"

namespace trireme::supervisor::test {
namespace {

TEST(Redraw, GoesBackOverTheRowsThatWereShown) {
  constexpr TerminalSize size{10, 6};
  EXPECT_EQ(back_over("", size), "");
  EXPECT_EQ(back_over("one\n", size), "\r\033[1A\033[J");
  EXPECT_EQ(back_over("one\n\ntwo\n", size), "\r\033[3A\033[J");
  EXPECT_EQ(back_over("0123456789\n", size), "\r\033[1A\033[J") << "a whole row";
  EXPECT_EQ(back_over("0123456789a\nb\n", size), "\r\033[3A\033[J") << "it continues in the next";
  EXPECT_EQ(back_over("äöüäöüäöüä\n", size), "\r\033[1A\033[J") << "characters, not bytes";
  EXPECT_EQ(back_over("1\n2\n3\n4\n5\n", size), "\r\033[5A\033[J");
  EXPECT_EQ(back_over("1\n2\n3\n4\n5\n6\n", size), "\033[H\033[J") << "the first has gone";
}

}  // namespace
}  // namespace trireme::supervisor::test
