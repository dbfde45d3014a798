// --freeze: what it takes, and what it says of what it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/rank_plan/training_spec.h"

#include "runtime/options/check_options.h"
#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;

TEST(FreezeOption, IsAListOfParts) {
  const GptCommandLine line("--freeze embedding,block.0-15", 1);
  EXPECT_THAT(line.problems.all(), testing::IsEmpty());
  const auto left_alone = [](const char* part) {
    return AllOf(Field(&ParameterGroup::pattern, part), Field(&ParameterGroup::trained, false));
  };
  EXPECT_THAT(training_spec(line.options, MeshShape(1, 1, 1)).groups,
              ElementsAre(left_alone("embedding"), left_alone("block.0-15")));
  EXPECT_THAT(line.command.configuration(),
              testing::Contains(testing::Pair("--freeze", "embedding,block.0-15")));
  for (const std::string wrong : {"a,,b", "a,", ",a"})
    EXPECT_THAT(problems_of("--freeze " + wrong, 1),
                ElementsAre("--freeze " + wrong +
                            ": expected names of parts of the model with commas between them, "
                            "such as embedding,block.0-15"));
}

TEST(FreezeOption, HasNoEffectWhereNothingIsTrained) {
  const GptCommandLine line("--train-iters 0 --freeze embedding", 1);
  EXPECT_EQ(idle_options(line.command, line.options, 1), "--freeze embedding (nothing is trained)");
}

}  // namespace
}  // namespace trireme
