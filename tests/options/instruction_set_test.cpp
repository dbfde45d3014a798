// --instruction-set and TRIREME_INSTRUCTION_SET, and what happens where they are wrong.
#include "runtime/options/instruction_set.h"

#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recorded_problems.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Result {
  std::vector<std::string> problems;
  std::optional<std::string> environment;  // afterwards
};

/// set_instruction_set for `arguments`, where the environment has `before`.
Result set(const char* before, const std::vector<const char*>& arguments) {
  constexpr const char* variable = "TRIREME_INSTRUCTION_SET";
  unsetenv(variable);
  if (before != nullptr) setenv(variable, before, 1);
  std::vector<const char*> argv{"program"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  Options options;
  CommandLine command("program", "");
  declare_options(command, options);
  test::RecordedProblems problems;
  command.parse(static_cast<int>(argv.size()), argv.data(), problems);
  set_instruction_set(command, options, problems);
  const char* after = std::getenv(variable);
  return {problems.all(), after == nullptr ? std::nullopt : std::optional<std::string>(after)};
}

TEST(InstructionSetOption, LeavesTheEnvironmentAloneWhereItIsNotGiven) {
  EXPECT_EQ(set(nullptr, {}).environment, std::nullopt);
  const Result named = set("portable", {});
  EXPECT_EQ(named.environment, "portable");
  EXPECT_THAT(named.problems, IsEmpty());
}

TEST(InstructionSetOption, WinsOverTheEnvironment) {
  for (const char* before : {"best", "nonsense"}) {
    const Result result = set(before, {"--instruction-set", "portable"});
    EXPECT_EQ(result.environment, "portable");
    EXPECT_THAT(result.problems, IsEmpty());
  }
  EXPECT_EQ(set("portable", {"--instruction-set", "best"}).environment, "best");
}

TEST(InstructionSetOption, AWrongEnvironmentIsAProblemAndPortableUntilTheRanksStop) {
  const Result result = set("nonsense", {});
  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("TRIREME_INSTRUCTION_SET=nonsense")));
  EXPECT_EQ(result.environment, "portable");
}

TEST(InstructionSetOption, ASetThatThisMachineLacksIsAProblem) {
  for (const InstructionSet wanted : {InstructionSet::avx2, InstructionSet::avx512}) {
    const Result result = set(nullptr, {"--instruction-set", name(wanted)});
    if (available(wanted)) {
      EXPECT_THAT(result.problems, IsEmpty());
      EXPECT_EQ(result.environment, name(wanted));
    } else {
      EXPECT_THAT(result.problems, ElementsAre(HasSubstr(name(wanted))));
      EXPECT_EQ(result.environment, "portable");
    }
  }
}

}  // namespace
}  // namespace trireme
