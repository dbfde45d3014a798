// --schedule has no meaning in a program that sets Options::own_schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/options/options.h"
#include "trireme/options/problems.h"

#include "tests/support/recorded_problems.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> problems_of_own_schedule(const std::vector<const char*>& words) {
  Options options;
  options.own_schedule = [](const PipelineShape&, int) { return WorkOrder(); };
  CommandLine command("program", "");
  declare_options(command, options);
  test::RecordedProblems problems;
  command.parse(static_cast<int>(words.size()), words.data(), problems);
  check_options(command, options, 1, problems);
  return problems.all();
}

TEST(OwnScheduleOption, IsNotMixedWithTheCommandLine) {
  EXPECT_EQ(problems_of_own_schedule({"program"}), std::vector<std::string>());
  EXPECT_EQ(problems_of_own_schedule({"program", "--schedule", "gpipe"}),
            std::vector<std::string>{"--schedule gpipe has no meaning in a program with a schedule "
                                     "of its own (Options::own_schedule); leave it out"});
}

TEST(OwnScheduleOption, IsShownInTheEffectiveConfiguration) {
  const auto shown = [](bool own) {
    Options options;
    if (own) options.own_schedule = [](const PipelineShape&, int) { return WorkOrder(); };
    CommandLine command("program", "");
    declare_options(command, options);
    return command.effective();
  };
  EXPECT_THAT(shown(true), HasSubstr("schedule of the program"));
  EXPECT_THAT(shown(false), HasSubstr("schedule 1f1b"));
}

}  // namespace
}  // namespace trireme
