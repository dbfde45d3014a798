// What counts as a list of names of options.
#include "tests/layering/option_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {

static void PrintTo(const OptionList& list, std::ostream* out) {
  *out << testing::PrintToString(list.names) << " in line " << list.line;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OptionLists, AreThreeNamesOneAfterTheOther) {
  EXPECT_THAT(
      option_lists_in(R"x(// {"--no", "--not", "--never"}
for (const char* each :
     {"--a", "--b-c",  // one
      "--d", "x", "--e"})
  f(each);
constexpr Row rows[] = {{"--a", true}, {"--b", {1, 2}}, {"--c", f(0)}};
g("--a", "--b", "--c");
)x"),
      ElementsAre(OptionList{{"--a", "--b-c", "--d"}, 3}, OptionList{{"--a", "--b", "--c"}, 6},
                  OptionList{{"--a", "--b", "--c"}, 7}));
}

TEST(OptionLists, AreNeitherCommandLinesNorTwoNamesNorSentences) {
  EXPECT_THAT(option_lists_in(R"x(f({"--a", "1", "--b", "2", "--c", "3"});
f({"--a", "--b"});
f({"--a", str(x), "--b", "--c"});
f({"give --a", "give --b", "give --c"});
)x"),
              IsEmpty());
}

TEST(OptionLists, ComeFromDeclarations) {
  EXPECT_THAT(options_declared_in(R"x(c.flag("--a,-b", x, "not --c");
c.add({"--d", "N"});
declare_float(c, "--e", y);
f("--g");
)x"),
              ElementsAre("--a", "--d", "--e"));
}

}  // namespace
}  // namespace trireme::layering
