// Conditions and their messages, the place that an Error names, FunctionRef, and log lines by rank
// and level.
#include "trireme/core/error.h"

#include <optional>
#include <string_view>

#include <gtest/gtest.h>

#include "trireme/core/function_ref.h"

namespace trireme {
namespace {

struct CountsItsPrints {
  int* prints;
  friend std::ostream& operator<<(std::ostream& out, const CountsItsPrints& part) {
    ++*part.prints;
    return out;
  }
};

TEST(Require, NamesThePlaceThatStatedTheCondition) {
  const int line = __LINE__ + 2;
  try {
    require(1 + 1 == 3, "one and one is ", 2, ", not ", 3);
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "one and one is 2, not 3");
    EXPECT_EQ(e.line(), line);
    EXPECT_TRUE(std::string_view(e.file()).ends_with("error_test.cpp")) << e.file();
  }
}

TEST(Require, TakesWhateverIsTrueOrFalse) {
  const std::optional<int> nothing;
  EXPECT_NO_THROW(require(std::optional<int>(0), "has a value"));
  EXPECT_THROW(require(nothing, "has none"), Error);
}

TEST(Require, BuildsNoMessageWhenTheConditionHolds) {
  int prints = 0;
  require(true, CountsItsPrints{&prints});
  EXPECT_EQ(prints, 0);
  EXPECT_THROW(require(false, CountsItsPrints{&prints}), Error);
  EXPECT_EQ(prints, 1);
}

TEST(Error, NamesThePlaceThatThrewIt) {
  const int line = __LINE__ + 1;
  const Error error("message");
  EXPECT_EQ(error.line(), line);
}

TEST(Str, WritesNineDigits) { EXPECT_EQ(str("loss ", 4.303933456789), "loss 4.30393346"); }

TEST(FunctionRef, CallsWhatItBorrows) {
  int total = 0;
  auto add = [&](int a, int b) { return total += a * b; };
  const FunctionRef<int(int, int)> f = add;
  EXPECT_EQ(f(2, 3), 6);
  EXPECT_EQ(f(2, 3), 12);
}

TEST(FunctionRef, ReturnsReferencesAsReferences) {
  int x = 1;
  const auto same = [](int& y) -> int& { return y; };
  const FunctionRef<int&(int&)> f = same;
  f(x) = 5;
  EXPECT_EQ(x, 5);
}

}  // namespace
}  // namespace trireme
