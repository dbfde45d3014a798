// How far tensors are apart, and in whose part of them.
#include "launch/verify/distance.h"

#include <limits>

#include <gtest/gtest.h>

namespace trireme::verify {
namespace {

using Floats = std::vector<float>;

/// Rows 0 and 1 on rank 0, row 2 on rank 1.
const std::vector<Piece> rows = {{{{0, 0}, {2, 2}}, 0}, {{{2, 0}, {1, 2}}, 1}};

TEST(Distance, IsTheNormOfTheDifference) {
  const Floats a{3, 4, 0, 0, 0, 0}, b{3, 4, 0, 0, 3, 4};
  const Distance found = distance_of({a, {}, b}, {3, 2}, rows);
  EXPECT_EQ(found.norm, 5);
  EXPECT_EQ(found.layout, 5);
  EXPECT_EQ(found.relative(), 1);
  EXPECT_EQ(found.piece, 1U);
  EXPECT_EQ(found.pieces_apart, 1U);
  EXPECT_EQ(found.element, 5);
  EXPECT_EQ(found.layout_there, 4);
}

TEST(Distance, OfOneRankInBf16IsBesideIt) {
  const Floats a{1, 0}, half{1, 2}, b{1, 3};
  const Distance found = distance_of({a, half, b}, {2}, {});
  EXPECT_EQ(found.one, 2);
  EXPECT_EQ(found.layout, 3);
}

TEST(Distance, ToWhatIsNoNumberIsInfinite) {
  const Floats a{1, 2}, b{1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(distance_of({a, {}, b}, {2}, {}).layout, std::numeric_limits<double>::infinity());
  EXPECT_EQ(distance_of({a, {}, b}, {2}, {}).element, 1);
}

TEST(Distance, OfAllPartsAlikeNamesHowMany) {
  const Floats a{1, 1, 1, 1, 1, 1}, b{2, 2, 2, 2, 2, 2};
  EXPECT_EQ(distance_of({a, {}, b}, {3, 2}, rows).pieces_apart, 2U);
}

TEST(Distance, OfAScalarIsThatOfItsElement) {
  const Floats a{1}, b{4};
  EXPECT_EQ(distance_of({a, {}, b}, {}, {}).layout, 3);
  EXPECT_EQ(index_text(0, {}), "[]");
}

TEST(Places, AreWrittenAsIndices) {
  EXPECT_EQ(index_text(5, {3, 2}), "[2, 1]");
  EXPECT_EQ(box_text(rows[1].box), "[2:3, 0:2]");
}

}  // namespace
}  // namespace trireme::verify
