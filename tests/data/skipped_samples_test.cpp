// Samples that are left out: their ranges as text, and what is read in their place.
#include "runtime/data/skipped_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace trireme::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Index> read(const SkippedSamples& skipped, Index count) {
  std::vector<Index> samples;
  for (Index n = 0; n < count; ++n) samples.push_back(skipped.at(n));
  return samples;
}

TEST(SkippedSamples, AreLeftOutAndTheOthersKeepTheirOrder) {
  EXPECT_THAT(read(SkippedSamples(), 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(SkippedSamples("2-4"), 4), ElementsAre(0, 1, 5, 6));
  EXPECT_THAT(read(SkippedSamples("0-0,3-4,6-6"), 5), ElementsAre(1, 2, 5, 7, 8));
}

TEST(SkippedSamples, AreOneTextWhateverTheyWereGivenAs) {
  EXPECT_EQ(SkippedSamples().text(), "");
  EXPECT_EQ(skipped_samples({"8-9,2-4", "10-12", "3-6"}).text(), "2-6,8-12");
  EXPECT_EQ(SkippedSamples("4-4,5-5,0-9").text(), "0-9");
  EXPECT_EQ(SkippedSamples("2-4,6-8").text(), "2-4,6-8");
}

TEST(SkippedSamples, SayWhatTheyDoNotHaveOfOthers) {
  const SkippedSamples skipped("10-19,30-39");
  EXPECT_EQ(skipped.first_missing_of(SkippedSamples()), -1);
  EXPECT_EQ(skipped.first_missing_of(SkippedSamples("12-19,30-30")), -1);
  EXPECT_EQ(skipped.first_missing_of(SkippedSamples("12-20")), 20);
  EXPECT_EQ(skipped.first_missing_of(SkippedSamples("5-12")), 5);
  EXPECT_EQ(skipped.first_missing_of(SkippedSamples("30-31,50-60")), 50);
}

TEST(SkippedSamples, AreRefusedWithTheRangeThatIsWrong) {
  for (const char* text : {"7", "7-", "-7", "a-b", "1-2-3", "1 - 2", "1-2,", ",", "1-2,x"})
    EXPECT_THAT(message_of([&] { SkippedSamples skipped(text); }), HasSubstr("a range of samples"))
        << text;
  EXPECT_THAT(message_of([] { SkippedSamples skipped("1-2,9-8"); }),
              HasSubstr("'9-8': the range has no sample"));
  EXPECT_THAT(message_of([] { SkippedSamples skipped("0-9223372036854775807"); }),
              HasSubstr("'0-9223372036854775807': the last sample is at most 1152921504606846976"));
  EXPECT_THAT(message_of([] { skipped_samples({""}); }), HasSubstr("a range of samples"));
}

}  // namespace
}  // namespace trireme::data
