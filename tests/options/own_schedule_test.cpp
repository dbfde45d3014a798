// --schedule has no meaning in a program that sets Options::own_schedule.
#include <gtest/gtest.h>

#include "trireme/options/options.h"
#include "trireme/options/problems.h"

namespace trireme {
namespace {

std::vector<std::string> problems_of(const std::vector<const char*>& words) {
  Options options;
  options.own_schedule = [](const PipelineShape&, int) { return WorkOrder(); };
  CommandLine command("program", "");
  declare_options(command, options);
  Problems problems;
  command.parse(static_cast<int>(words.size()), words.data(), problems);
  check_options(command, options, 1, problems);
  return problems.all();
}

TEST(OwnScheduleOption, IsNotMixedWithTheCommandLine) {
  EXPECT_EQ(problems_of({"program"}), std::vector<std::string>());
  EXPECT_EQ(problems_of({"program", "--schedule", "gpipe"}),
            std::vector<std::string>{"--schedule gpipe has no meaning in a program with a schedule "
                                     "of its own (Options::own_schedule); leave it out"});
}

}  // namespace
}  // namespace trireme
