// --save-interval: a number of steps, or auto, which `trireme run` replaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SaveInterval, OfAutoIsForTriremeRun) {
  EXPECT_THAT(problems_of("--save /tmp/c --save-interval auto", 1),
              ElementsAre(AllOf(HasSubstr("--save-interval auto: `trireme run` chooses"),
                                HasSubstr("--save-interval-seconds X"))));
  EXPECT_THAT(problems_of("--save-interval auto", 1),
              ElementsAre(HasSubstr("--save-interval has no meaning without --save")));
  EXPECT_THAT(
      problems_of("--save /tmp/c --save-interval automatic", 1),
      ElementsAre(HasSubstr("--save-interval automatic: expected a whole number >= 1, or auto")));
}

TEST(SaveInterval, OfAutoMayBeReplacedByATime) {
  const std::string line = "--save /tmp/c --save-interval auto --save-interval-seconds 600";
  EXPECT_THAT(problems_of(line, 1), ElementsAre());
  EXPECT_THAT(problems_of(line + " --keep-last 2 --save-retain-interval 10", 1),
              ElementsAre(HasSubstr("give it, such as --save-interval 10")));
}

TEST(SaveInterval, IsShownAsItWasGiven) {
  const auto shown = [](const std::string& value) {
    GptCommandLine line("--save /tmp/c --save-interval-seconds 9 --save-interval " + value, 1);
    return line.command.effective();
  };
  EXPECT_THAT(shown("auto"), HasSubstr("save-interval auto*"));
  EXPECT_THAT(shown("25"), HasSubstr("save-interval 25*"));
}

}  // namespace
}  // namespace trireme
