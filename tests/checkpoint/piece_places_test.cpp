// Which steps are complete, and where the pieces of their ranks are nearest.
#include "runtime/checkpoint/tiers/piece_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SnapshotStep ten{10, "a"}, twenty{20, "a"}, later{20, "b"};

TEST(PiecePlaces, HaveAStepWhenEachPieceIsSomewhereNewestFirst) {
  PiecePlaces places(2);
  places.add(ten, 0, PieceAt::disk);
  places.add(ten, 1, PieceAt::partner);
  places.add(twenty, 1, PieceAt::memory);
  EXPECT_THAT(places.complete(), ElementsAre(ten));
  places.add(later, 0, PieceAt::memory);  // a step of another job is another step
  EXPECT_FALSE(places.is_complete(twenty) || places.is_complete({30, "a"}));
  places.add(twenty, 0, PieceAt::disk);
  places.add(later, 1, PieceAt::disk);
  EXPECT_THAT(places.complete(), ElementsAre(later, twenty, ten));
}

TEST(PiecePlaces, AreTakenNearestFirst) {
  PiecePlaces places(2);
  for (const PieceAt place : {PieceAt::disk, PieceAt::memory, PieceAt::partner})
    places.add(ten, 0, place);
  places.add(ten, 1, PieceAt::disk);
  for (const PieceAt place : {PieceAt::memory, PieceAt::partner, PieceAt::disk}) {
    EXPECT_TRUE(places.is_complete(ten));
    EXPECT_EQ(places.nearest(ten, 0), place);
    places.drop_nearest(ten, 0);
  }
  EXPECT_EQ(places.nearest(ten, 0), PieceAt::nowhere);
  EXPECT_FALSE(places.is_complete(ten));
  EXPECT_THAT(places.ranks_at(ten, PieceAt::disk), ElementsAre(1));
  EXPECT_THAT(places.ranks_at(twenty, PieceAt::memory), IsEmpty());
}

TEST(PiecePlaces, HaveTheNewestStepThatIsWholeInOnePlace) {
  PiecePlaces places(2);
  for (const int rank : {0, 1}) places.add(ten, rank, PieceAt::disk);
  places.add(twenty, 0, PieceAt::disk);
  places.add(twenty, 1, PieceAt::memory);
  EXPECT_EQ(places.newest_at(PieceAt::disk, 100), ten);
  EXPECT_EQ(places.newest_at(PieceAt::memory, 100), std::nullopt);
  places.add(twenty, 1, PieceAt::disk);
  EXPECT_EQ(places.newest_at(PieceAt::disk, 100), twenty);
  EXPECT_EQ(places.newest_at(PieceAt::disk, 19), ten);
  EXPECT_EQ(places.newest_at(PieceAt::disk, 9), std::nullopt);
}

}  // namespace
}  // namespace trireme::checkpoint
