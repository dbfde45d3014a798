// Which switches and comparisons leave a new kind undecided.
#include "tests/layering/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Kinds, ADefaultAmongEnumeratorsIsFound) {
  EXPECT_THAT(lines_of_defaults("switch (a) {\n  case Kind::x:\n    f();\n  default:\n  }\n"
                                "switch (b) {\n  case Kind::x: {\n    switch (c) {\n"
                                "      case 1:\n      default:\n    }\n  }\n}\n"
                                "switch (d) {\n  default :\n  case ns::Kind::y:\n}\n"),
              ElementsAre(4, 15));
}

TEST(Kinds, ADefaultAmongNumbersCommentsAndOtherWordsIsNone) {
  EXPECT_THAT(lines_of_defaults("switch (a) {\n  case 1:\n  case SIGTERM:\n  default:\n}\n"
                                "A(const A&) = default;\n// default:\nf(\"default:\");\n"
                                "switch (a) {\n  case Kind::x:\n    g(default_of(a));\n}\n"),
              IsEmpty());
}

TEST(Kinds, AComparisonWithAKindIsFound) {
  EXPECT_THAT(lines_of_comparisons("if (a == MlpKind::swiglu)\n// a == MlpKind::x\n"
                                   "b = c !=\n  trireme::MlpKind::swiglu;\n"
                                   "d == OtherMlpKind::x; e = MlpKind::swiglu;\n",
                                   "MlpKind"),
              ElementsAre(1, 3));
}

}  // namespace
}  // namespace trireme::layering
