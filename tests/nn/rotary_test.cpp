// The table of rotations: from the frequencies of the paper, and from others.
#include "trireme/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

std::vector<float> values_of(const RotaryTable& table) {
  std::vector<float> values(static_cast<std::size_t>(table.sequence() * table.head_dim()));
  table.write(reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST(RotaryTable, HasTheFrequenciesOfThePaper) {
  EXPECT_THAT(rotary_frequencies(8, 10000),
              ElementsAre(1.0, std::pow(10000.0, -0.25), std::pow(10000.0, -0.5),
                          std::pow(10000.0, -0.75)));
  EXPECT_THAT(rotary_frequencies(2, 500000), ElementsAre(1.0));
}

TEST(RotaryTable, IsMadeOfAnyFrequencies) {
  const std::vector<double> frequencies = {1.0, 0.125};
  std::vector<float> expected;
  for (const double position : {0.0, 1.0, 2.0}) {
    for (const double f : frequencies)
      expected.push_back(static_cast<float>(std::cos(position * f)));
    for (const double f : frequencies)
      expected.push_back(static_cast<float>(std::sin(position * f)));
  }
  const RotaryTable table(3, frequencies);
  EXPECT_EQ(table.head_dim(), 4);
  EXPECT_THAT(values_of(table), ElementsAreArray(expected));
}

TEST(RotaryTable, OfABaseIsThatOfItsFrequencies) {
  EXPECT_EQ(values_of(RotaryTable(40, 66, 1e4f)),
            values_of(RotaryTable(40, rotary_frequencies(66, 1e4f))));
}

std::vector<double> scaled(RotaryScalingKind kind) {
  RotaryScaling s;
  s.kind = kind;
  return rotary_frequencies(128, 500000, s);
}

// Of Llama 3.1's head: pairs 0 to 28 have more than 4 periods in 8192 positions, those from 35 on
// less than one.
TEST(RotaryFrequencies, OfLlama3AreKeptOrDividedOrBetween) {
  const std::vector<double> plain = rotary_frequencies(128, 500000),
                            f = scaled(RotaryScalingKind::llama3);
  for (std::size_t j = 0; j < plain.size(); ++j) {
    SCOPED_TRACE(j);
    const double least = plain[j] / 8 * (28 < j && j < 35 ? 1.001 : 1),
                 most = plain[j] / (j <= 28  ? 1
                                    : j < 35 ? 1.001
                                             : 8);
    EXPECT_GE(f[j], (j <= 28 ? plain[j] : least) * (1 - 1e-15));
    EXPECT_LE(f[j], most * (1 + 1e-15));
  }
}

TEST(RotaryFrequencies, OfLinearScalingAreDivided) {
  const std::vector<double> plain = rotary_frequencies(128, 500000),
                            f = scaled(RotaryScalingKind::linear);
  for (std::size_t j = 0; j < plain.size(); ++j) EXPECT_EQ(f[j], plain[j] / 8);
  EXPECT_EQ(scaled(RotaryScalingKind::none), plain);
}

// 32 turns in 8192 positions belong to pair 18.1 of 64, rounded down; one turn to 34.98, rounded
// up.
TEST(RotaryFrequencies, OfYarnFollowARampOverThePairs) {
  const std::vector<double> plain = rotary_frequencies(128, 500000),
                            f = scaled(RotaryScalingKind::yarn);
  for (std::size_t j = 0; j < plain.size(); ++j) {
    const double divided = std::clamp((static_cast<double>(j) - 18) / (35 - 18), 0.0, 1.0);
    EXPECT_NEAR(f[j] / plain[j], 1 - divided * 7 / 8, 1e-12) << j;
  }
}

TEST(RotaryFrequencies, OfYarnNeedABaseAboveOne) {
  EXPECT_THAT(message_of([] { rotary_frequencies(8, 1, {.kind = RotaryScalingKind::yarn}); }),
              HasSubstr("above 1, not 1"));
}

TEST(RotaryTable, OfYarnIsMultiplied) {
  EXPECT_EQ(rotary_amplitude({.kind = RotaryScalingKind::llama3, .attention_factor = 2}), 1);
  EXPECT_EQ(rotary_amplitude({.kind = RotaryScalingKind::yarn, .attention_factor = 2}), 2);
  EXPECT_EQ(rotary_amplitude({.kind = RotaryScalingKind::yarn, .factor = 1}), 1);
  EXPECT_DOUBLE_EQ(rotary_amplitude({.kind = RotaryScalingKind::yarn, .factor = 4}),
                   0.1 * std::log(4.0) + 1);
  const std::vector<double> frequencies = {1.0};
  EXPECT_THAT(values_of(RotaryTable(1, frequencies, 1.5)), ElementsAre(1.5f, 0.0f));
}

TEST(RotaryTable, SaysWhatItNeeds) {
  EXPECT_THAT(message_of([] { rotary_frequencies(7, 10000); }), HasSubstr("not 7 and 10000"));
  EXPECT_THAT(message_of([] { rotary_frequencies(8, 0); }), HasSubstr("not 8 and 0"));
  EXPECT_THAT(message_of([] { RotaryTable(0, std::vector<double>{1}); }),
              HasSubstr("not 0 positions and 1 frequencies"));
  EXPECT_THAT(message_of([] { RotaryTable(4, std::vector<double>{}); }),
              HasSubstr("not 4 positions and 0 frequencies"));
}

TEST(Rotary, HasItsTableOnceForAllLayers) {
  Graph graph;
  const auto table = std::make_shared<const RotaryTable>(6, 8, 1e4f);
  const Value x = graph.input("x", {12, 32});
  rotary(rotary(x, table, 3), table, 3);
  EXPECT_THAT(graph.constants(), ElementsAre(table));
}

}  // namespace
}  // namespace trireme
