// Conditions and their messages, the place that an Error names, FunctionRef, and log lines by rank
// and level.
#include "trireme/core/error.h"

#include <optional>
#include <string_view>

#include <gtest/gtest.h>

#include "trireme/core/function_ref.h"
#include "trireme/core/log.h"

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

TEST(Log, WritesProseOnRankZeroOnly) {
  testing::internal::CaptureStdout();
  Log(0, LogLevel::info).info("hello");
  Log(1, LogLevel::info).info("hello from another rank");
  Log(0, LogLevel::info).debug("too detailed");
  Log(0, LogLevel::debug).debug("detailed");
  Log(0, LogLevel::info).line("step 1");
  Log(1, LogLevel::info).line("step 1");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "# hello\n# detailed\nstep 1\n");
}

TEST(Log, IsSilentWhenQuietButForWarnings) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Log log(3, LogLevel::quiet);
  log.info("prose");
  log.line("table");
  log.warning("disk is nearly full");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "trireme[rank 3] warning: disk is nearly full\n");
}

}  // namespace
}  // namespace trireme
