// The table of rotations: from the frequencies of the paper, and from others.
#include "trireme/nn/rotary.h"

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
