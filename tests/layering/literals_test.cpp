// What counts as a string literal, and what a message names.
#include "tests/layering/literals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {

static void PrintTo(const Literal& literal, std::ostream* out) {
  *out << '"' << literal.text << "\" in line " << literal.line;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Literals, AreWhatIsInQuotes) {
  EXPECT_THAT(literals_of(R"x(#include "a.h"
// "no"
/* "no" */ f("one", '"', 1'000);
g("with \"quotes\"" "two");
h(R"(raw "text")");
)x"),
              ElementsAre(Literal{"one", 3}, Literal{R"(with \"quotes\")", 4}, Literal{"two", 4},
                          Literal{R"(raw "text")", 5}));
}

TEST(Literals, LeaveTheCodeAroundThem) {
  EXPECT_EQ(code_of("f(\"a)\", ')', R\"(b)\", 1'000); // c\ng();\n"),
            "f(    ,    ,       , 1'000);     \ng();\n");
}

TEST(Literals, NameOptions) {
  EXPECT_THAT(options_in("use --hidden-size 8 or --tp"), ElementsAre("--hidden-size", "--tp"));
  EXPECT_THAT(options_in("--bf16"), ElementsAre("--bf16"));
  EXPECT_THAT(options_in("a - b -- c, x--, --1, well--known"), IsEmpty());
}

}  // namespace
}  // namespace trireme::layering
