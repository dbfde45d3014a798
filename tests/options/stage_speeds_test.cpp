// --stage-speeds: what it takes, and what the gate says of what it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StageSpeeds, AreOneForEachPipelineRank) {
  const GptCommandLine line("--pp 2 --stage-speeds 1,0.5", 4);
  EXPECT_THAT(line.problems.all(), IsEmpty());
  EXPECT_THAT(line.options.stage_speeds, ElementsAre(1, 0.5));
  EXPECT_THAT(line.command.configuration(),
              testing::Contains(testing::Pair("--stage-speeds", "1,0.5")));
  EXPECT_THAT(problems_of("--pp 2 --stage-speeds 1,0.5,1", 2),
              ElementsAre("--stage-speeds 1,0.5,1: 3 speeds for --pipeline-model-parallel-size 2; "
                          "give 2 numbers, one for each pipeline rank, or leave the option out for "
                          "equal speeds"));
}

TEST(StageSpeeds, ArePositiveNumbers) {
  for (const std::string wrong : {"1,0", "1,-1", "1,", "1,fast", "1,nan", "1,1e9"})
    EXPECT_THAT(problems_of("--pp 2 --stage-speeds " + wrong, 2),
                ElementsAre("--stage-speeds " + wrong +
                            ": expected numbers >= 1e-06 and <= 1000000 with commas between them, "
                            "such as 1,0.5"));
}

}  // namespace
}  // namespace trireme
