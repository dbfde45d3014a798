// Which elements two views share, and which writes of a gradient assign or add.
#include "runtime/graph/region.h"

#include <gtest/gtest.h>

namespace trireme::graph {
namespace {

const Spec root{4, 6};
Region part(int dim, Index begin, Index end) {
  return region_of(root.sliced(dim, begin, end), begin * root.strides[dim]);
}
Region whole() { return region_of(root, 0); }
Region columns_of_four() { return region_of(Spec{6, 4}.sliced(1, 2, 4), 2); }
using Modes = std::vector<WriteMode>;
constexpr WriteMode assign = WriteMode::assign, add = WriteMode::add;

TEST(Region, TheSameElementsAreTheSameHoweverTheyAreFolded) {
  EXPECT_EQ(region_of(Spec{24}, 0).dims.size(), 1u);
  EXPECT_EQ(region_of(Spec{2, 3, 4}, 0).dims.size(), 1u);
  Spec transposed{6, 4};
  transposed.strides = Shape{1, 6};
  EXPECT_EQ(region_of(transposed, 0).dims.size(), 1u);
  EXPECT_EQ(part(1, 2, 4).dims.size(), 2u);
}

TEST(Region, AViewThatReachesElementsTwiceIsRefused) {
  Spec broadcast{4, 6};
  broadcast.strides = Shape{0, 1};
  EXPECT_THROW(region_of(broadcast, 0), Error);
  Spec overlapping{4, 6};
  overlapping.strides = Shape{5, 1};
  EXPECT_THROW(region_of(overlapping, 0), Error);
}

TEST(Region, PartsAreDisjointOrNot) {
  EXPECT_TRUE(disjoint(part(1, 0, 2), part(1, 2, 6)));
  EXPECT_FALSE(disjoint(part(1, 0, 3), part(1, 2, 6)));
  EXPECT_TRUE(disjoint(part(0, 0, 1), part(0, 1, 2)));
  EXPECT_FALSE(disjoint(part(0, 0, 2), part(1, 0, 2)));
  EXPECT_FALSE(disjoint(part(1, 0, 2), columns_of_four())) << "cannot be known, so no";
}

TEST(Gather, TheFirstWriteAssignsAndLaterOnesAdd) {
  const Gathering g = gather(whole(), {whole(), whole(), part(1, 0, 2)});
  EXPECT_FALSE(g.zero_first);
  EXPECT_EQ(g.modes, (Modes{assign, add, add}));
}

TEST(Gather, PartsThatTileTheRootAssign) {
  const Gathering g =
      gather(whole(), {part(1, 0, 2), part(1, 4, 6), part(1, 2, 4), part(1, 4, 6), whole()});
  EXPECT_FALSE(g.zero_first);
  EXPECT_EQ(g.modes, (Modes{assign, assign, assign, add, add}));
}

TEST(Gather, PartsSeenThroughOtherDimsTileToo) {
  const Spec folded{2, 2, 6};
  const Gathering g = gather(
      whole(), {region_of(folded.sliced(0, 0, 1), 0), region_of(folded.sliced(0, 1, 2), 12)});
  EXPECT_FALSE(g.zero_first);
  EXPECT_EQ(g.modes, (Modes{assign, assign}));
}

TEST(Gather, StretchesThatTileTheRootAssign) {
  const Gathering g = gather(whole(), {region_of(Spec{5}, 0), region_of(Spec{19}, 5)});
  EXPECT_FALSE(g.zero_first);
}

TEST(Gather, WhatDoesNotTileIsZeroedFirst) {
  for (const auto& writes : std::vector<std::vector<Region>>{{part(1, 0, 2)},
                                                             {part(1, 0, 4), part(1, 2, 6)},
                                                             {part(0, 0, 2), part(1, 0, 2)},
                                                             {part(1, 0, 2), whole()},
                                                             {part(1, 0, 2), columns_of_four()}}) {
    const Gathering g = gather(whole(), writes);
    EXPECT_TRUE(g.zero_first);
    EXPECT_EQ(g.modes, Modes(writes.size(), add));
  }
}

}  // namespace
}  // namespace trireme::graph
