// --skip-samples: what it takes, and what the gate says of what it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/options/left_out_samples.h"
#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SkipSamples, TakesSeveralRanges) {
  const GptCommandLine line("--skip-samples 4792-4799 6000-6007,6100-6100", 1);
  EXPECT_THAT(line.problems.all(), IsEmpty());
  EXPECT_THAT(line.options.checkpoint.skip_samples,
              ElementsAre("4792-4799", "6000-6007,6100-6100"));
}

TEST(SkipSamples, IsRefusedWithTheRangeThatIsWrong) {
  EXPECT_THAT(GptCommandLine("--skip-samples 9-8", 1).problems.all(),
              ElementsAre(HasSubstr("--skip-samples '9-8': the range has no sample")));
  EXPECT_THAT(GptCommandLine("--skip-samples 1-2 seven", 1).problems.all(),
              ElementsAre(HasSubstr("--skip-samples 'seven': expected a range of samples")));
}

TEST(SkipSamples, IsAConfigurationErrorWhereAProgramHasSetIt) {
  Options options;
  options.checkpoint.skip_samples = {"9-8"};
  const auto message = [&]() -> std::string {
    try {
      options::left_out_samples(options);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(), HasSubstr("--skip-samples '9-8': the range has no sample"));
  options.checkpoint.skip_samples = {"8-9"};
  EXPECT_EQ(options::left_out_samples(options).text(), "8-9");
}

}  // namespace
}  // namespace trireme
