// Layouts in words, and words that a layout has to match.
#include "runtime/layouts/search/layout_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace trireme::layouts {
namespace {

using testing::HasSubstr;

Layout large() {
  Layout layout;
  layout.tensor = 4;
  layout.pipeline = 4;
  layout.chunks = 2;
  layout.data = 8;
  layout.micro_batch = 2;
  layout.schedule = ScheduleKind::interleaved;
  layout.recompute = RecomputeGranularity::selective;
  layout.sharded = layout.sequence_parallel = true;
  return layout;
}

TEST(LayoutText, LeavesOutWhatIsUsual) {
  EXPECT_EQ(describe(Layout{}), "tp 1  pp 1  dp 1  mb 1");
  EXPECT_EQ(describe(large()), "tp 4  pp 4  v 2  dp 8  mb 2  selective");
  Layout layout = large();
  layout.sharded = layout.sequence_parallel = false;
  layout.head_chunks = 8;
  layout.chunks = 1;
  layout.schedule = ScheduleKind::gpipe;
  EXPECT_EQ(describe(layout), "tp 4  pp 4  dp 8  mb 2  gpipe  selective  zero 0  sp 0  chunks 8");
}

TEST(LayoutText, OfALayoutIsMatchedByThatLayout) {
  EXPECT_TRUE(parse_pins(describe(large())).match(large()));
  EXPECT_FALSE(parse_pins(describe(large())).match(Layout{}));
}

TEST(LayoutText, PinsOneWordOrSeveral) {
  for (const char* text : {"tp=4", "tp 4", "tp 4, pp=4", "selective", "recompute=selective",
                           "schedule interleaved", "zero 1 sp=1 chunks 1 mb 2 dp 8 v 2"})
    EXPECT_TRUE(parse_pins(text).match(large())) << text;
  for (const char* text : {"tp=2", "full", "zero 0", "sp 0", "chunks 8", "mb 1", "dp 4", "v 1",
                           "schedule gpipe", "pp 2"})
    EXPECT_FALSE(parse_pins(text).match(large())) << text;
  EXPECT_FALSE(parse_pins("pp 2", parse_pins("tp 4")).match(large()));
  EXPECT_TRUE(LayoutPins{}.empty());
  EXPECT_FALSE(parse_pins("tp 4").empty());
}

TEST(LayoutText, PinsNothingThatIsIdle) { EXPECT_TRUE(parse_pins("zero 1 sp 1").match(Layout{})); }

TEST(LayoutText, RefusesWhatIsNoWordOfALayout) {
  EXPECT_THAT(message_of([] { parse_pins("tq=4"); }),
              HasSubstr("'tq' is no word of a layout; there are tp, pp, v"));
  EXPECT_THAT(message_of([] { parse_pins(""); }), HasSubstr("no word of a layout is given"));
  EXPECT_THAT(message_of([] { parse_pins("tp"); }), HasSubstr("'tp' needs a value"));
  EXPECT_THAT(message_of([] { parse_pins("tp=x"); }),
              HasSubstr("'tp x': expected a whole number from 1"));
  EXPECT_THAT(message_of([] { parse_pins("zero=3"); }), HasSubstr("from 0 to 1"));
  EXPECT_THAT(message_of([] { parse_pins("recompute=some"); }),
              HasSubstr("expected one of none, selective, full"));
}

}  // namespace
}  // namespace trireme::layouts
