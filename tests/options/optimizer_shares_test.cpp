// --optimizer-shares: what it takes, and what the gate says of what it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/rank_plan/training_spec.h"

#include "runtime/options/check_options.h"
#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string zero = "--use-distributed-optimizer ";

TEST(OptimizerShares, AreOneForEachDataRankAndMayBeZero) {
  const GptCommandLine line(zero + "--optimizer-shares 3,0,1 --tp 2 --global-batch-size 12", 6);
  EXPECT_THAT(line.problems.all(), IsEmpty());
  EXPECT_THAT(training_spec(line.options, MeshShape(3, 1, 2)).optimizer_shares,
              ElementsAre(3, 0, 1));
  EXPECT_THAT(line.command.configuration(),
              testing::Contains(testing::Pair("--optimizer-shares", "3,0,1")));
  EXPECT_THAT(problems_of(zero + "--optimizer-shares 3,2,1 --pp 2 --num-layers 2", 4),
              ElementsAre("--optimizer-shares 3,2,1: 3 shares for data parallel size 2; give 2 "
                          "numbers, one for each data rank, or leave the option out for equal "
                          "shares"));
  EXPECT_THAT(problems_of(zero + "--optimizer-shares 0,0", 2),
              ElementsAre("--optimizer-shares 0,0: at least one share has to be more than 0"));
}

TEST(OptimizerShares, AreEqualByDefaultWhateverTheMicroBatches) {
  const GptCommandLine line(zero + "--data-parallel-shares 3,1", 2);
  EXPECT_THAT(training_spec(line.options, MeshShape(2, 1, 1)).optimizer_shares, IsEmpty());
}

TEST(OptimizerShares, NeedAnOptimizerThatIsDivided) {
  EXPECT_THAT(problems_of("--optimizer-shares 3,1", 2),
              ElementsAre("--optimizer-shares 3,1 divides what --use-distributed-optimizer "
                          "divides; add that, or leave the shares out"));
}

TEST(OptimizerShares, AreWholeNumbers) {
  for (const std::string wrong : {"3,", "3,-1", "1.5,1", "3;1", "1048577,1"})
    EXPECT_THAT(problems_of(zero + "--optimizer-shares " + wrong, 2),
                ElementsAre("--optimizer-shares " + wrong +
                            ": expected whole numbers from 0 to 1048576 with commas between them, "
                            "such as 3,2,1"));
}

TEST(OptimizerShares, HaveNoEffectOnOneDataRankAndWhereNothingIsTrained) {
  const GptCommandLine one(zero + "--optimizer-shares 2", 1);
  EXPECT_THAT(idle_options(one.command, one.options, 1),
              testing::HasSubstr("--optimizer-shares 2 (data parallel size 1)"));
  // As in a file that was written for another number of ranks.
  const GptCommandLine forward("--optimizer-shares 3,1 --skip-train --load run --data-path x", 1);
  EXPECT_THAT(forward.problems.all(), testing::Each(testing::Not(testing::HasSubstr("shares"))));
  EXPECT_THAT(idle_options(forward.command, forward.options, 1),
              testing::HasSubstr("--optimizer-shares 3,1 (nothing is trained)"));
  EXPECT_THAT(training_spec(forward.options, MeshShape(1, 1, 1)).optimizer_shares, IsEmpty());
}

}  // namespace
}  // namespace trireme
