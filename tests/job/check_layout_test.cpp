// --check-layout: what it says of each number of ranks, without ranks.
#include "runtime/job/layout/check_layout.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/job/layout/layout_mesh.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// What check_layouts() prints, and its exit code.
struct Checked {
  int code;
  std::string lines, errors;

  /// The lines without the options.
  std::string without_configuration() const {
    return std::regex_replace(lines, std::regex(",\"configuration\":\\{[^}]*\\}"), "");
  }
};

Checked check(const std::string& counts, std::vector<const char*> words,
              const std::function<void(Context&)>& f) {
  words.insert(words.begin(), "program");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = check_layouts(counts, static_cast<int>(words.size()),
                                 const_cast<char**>(words.data()), Application{}, f);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

/// A program that prints, and whose Trainer plans ten bytes a data rank.
void train(Context& context) {
  std::puts("begins");
  EXPECT_TRUE(only_checks_layout(context));
  throw LayoutChecked{.rank_bytes = 10 * context.data_size(), .state_bytes = 3};
}

TEST(CheckLayout, SaysWhichNumbersOfRanksAreLegalAndWhyOthersAreNot) {
  const Checked found =
      check("8,6,4", {"--tp", "2", "--check-layout", "8,6,4", "--global-batch-size", "8"}, train);
  EXPECT_EQ(found.code, 0);
  EXPECT_EQ(
      found.without_configuration(),
      "{\"ranks\":8,\"legal\":true,\"data\":4,\"pipeline\":1,\"tensor\":2,\"rank_bytes\":40,"
      "\"state_bytes\":3}\n"
      "{\"ranks\":6,\"legal\":false,\"problems\":[\"--global-batch-size 8 is not a multiple of "
      "data "
      "parallel size 3 x --micro-batch-size 1 = 3; the nearest: 6 or 9\"]}\n"
      "{\"ranks\":4,\"legal\":true,\"data\":2,\"pipeline\":1,\"tensor\":2,\"rank_bytes\":20,"
      "\"state_bytes\":3}\n");
}

TEST(CheckLayout, HasTheEffectiveOptionsOfALegalLayout) {
  const Checked found = check("2", {"--tp", "2", "--bf16"}, train);
  EXPECT_THAT(found.lines, HasSubstr(",\"configuration\":{"));
  EXPECT_THAT(found.lines, HasSubstr("\"--tensor-model-parallel-size\":\"2\""));
  EXPECT_THAT(found.lines, HasSubstr("\"--bf16\":\"true\""));
  EXPECT_THAT(check("3", {"--tp", "2"}, train).lines, Not(HasSubstr("configuration")));
}

TEST(CheckLayout, NamesWhatTheProgramItselfRefuses) {
  const Checked found = check("2", {}, [](Context&) { throw Error("no such model"); });
  EXPECT_THAT(found.lines, HasSubstr("\"legal\":false,\"problems\":[\"no such model\"]"));
}

TEST(CheckLayout, SurvivesAProgramThatCrashes) {
  const Checked found = check("2,1", {}, [](Context& context) {
    if (context.mesh().shape().size() == 2) std::_Exit(3);
  });
  EXPECT_EQ(found.code, 1);
  EXPECT_THAT(found.lines, StartsWith("{\"ranks\":1,\"legal\":true"));
  EXPECT_THAT(found.errors, HasSubstr("--check-layout 2: the check of the program has failed"));
}

TEST(CheckLayout, RefusesWhatIsNoNumberOfRanks) {
  for (const char* counts : {"", "0", "4,x", "-2", "12345678", "4,,2"}) {
    const Checked found = check(counts, {}, train);
    EXPECT_EQ(found.code, 64) << counts;
    EXPECT_THAT(found.errors, HasSubstr("expected numbers of ranks, such as 8,6,4")) << counts;
  }
}

TEST(CheckLayout, IsReadBeforeThereAreOptions) {
  const char* apart[] = {"program", "--check-layout", "4"};
  const char* together[] = {"program", "--check-layout=8,2"};
  EXPECT_EQ(layouts_to_check(3, apart), "4");
  EXPECT_EQ(layouts_to_check(2, together), "8,2");
  EXPECT_EQ(layouts_to_check(2, apart), "");
  EXPECT_FALSE(layouts_to_check(1, apart));
}

}  // namespace
}  // namespace trireme
