// --data-parallel-shares: what it takes, and what the gate says of what it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(DataShares, AreMicroBatchesRelativeToEachOther) {
  const GptCommandLine line(
      "--data-parallel-shares 3,2,1 --global-batch-size 24 "
      "--micro-batch-size 2",
      3);
  EXPECT_THAT(line.problems.all(), IsEmpty());
  EXPECT_EQ(line.options.micro_batches(3, 0), 6);
  EXPECT_EQ(line.options.micro_batches(3, 1), 4);
  EXPECT_EQ(line.options.micro_batches(3, 2), 2);
}

TEST(DataShares, AreShownAsTheyWereGiven) {
  const GptCommandLine line("--data-parallel-shares 3,1", 2);
  KeyValues shown;
  for (const auto& [option, value] : line.command.configuration())
    if (option == "--data-parallel-shares") shown.emplace_back(option, value);
  EXPECT_THAT(shown, ElementsAre(testing::Pair("--data-parallel-shares", "3,1")));
}

TEST(DataShares, AreOneForEachDataRank) {
  EXPECT_THAT(problems_of("--data-parallel-shares 3,2,1 --pp 2 --num-layers 2", 4),
              ElementsAre("--data-parallel-shares 3,2,1: 3 shares for data parallel size 2; give 2 "
                          "numbers, one for each data rank, or leave the option out for equal "
                          "shares"));
}

TEST(DataShares, DivideTheMicroBatchesOfAStep) {
  EXPECT_THAT(problems_of("--data-parallel-shares 3,2 --global-batch-size 8", 2),
              ElementsAre("--global-batch-size 8 is not a multiple of the sum 5 of "
                          "--data-parallel-shares 3,2 x --micro-batch-size 1 = 5; the nearest: 5 "
                          "or 10"));
  EXPECT_THAT(problems_of("--data-parallel-shares 1048576,1 --micro-batch-size 1099511627776 "
                          "--seq-length 2 --global-batch-size 8",
                          2),
              testing::Contains(testing::HasSubstr("--global-batch-size 8 is not a multiple of")));
}

TEST(DataShares, AreWholeNumbersAboveZero) {
  for (const std::string wrong : {"3,0", "3,", "3,-1", "1.5,1", "3;1", "1048577,1"})
    EXPECT_THAT(problems_of("--data-parallel-shares " + wrong, 2),
                ElementsAre("--data-parallel-shares " + wrong +
                            ": expected whole numbers from 1 to 1048576 with commas between them, "
                            "such as 3,2,1"));
}

TEST(DataShares, OfALongScheduleAreRefusedOnce) {
  EXPECT_THAT(problems_of("--data-parallel-shares 3,1 --global-batch-size 4000000", 2),
              ElementsAre("--global-batch-size 4000000 gives a data rank 3000000 micro-batches a "
                          "step; a schedule of 1 stage has at most 1048576: a smaller batch, or a "
                          "larger --micro-batch-size"));
}

}  // namespace
}  // namespace trireme
