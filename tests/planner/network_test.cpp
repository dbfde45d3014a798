// Times of collectives and messages against closed formulas.
#include "runtime/planner/network.h"

#include <gtest/gtest.h>

#include "tests/planner/tiny_profile.h"

namespace trireme::planner {
namespace {

using Kind = CollectiveWork::Kind;

Profile linked() {
  Profile profile = unit_profile();
  profile.node = {1e-6, 100e9};
  profile.collective_seconds = 5e-6;
  profile.port_efficiency = 0.5;
  return profile;
}

constexpr Network network{8, {4e-6, 20e9}};  // 10 GB/s a port reach collectives

TEST(CollectiveTime, InsideANodeIsARingOfItsLinks) {
  const Group eight{8, 1};
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_reduce, 1, 8e9}, eight, linked(), network),
                   5e-6 + 14 * 1e-6 + 2 * 7e9 / 100e9);
  for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter})
    EXPECT_DOUBLE_EQ(collective_time({kind, 1, 8e9}, eight, linked(), network),
                     5e-6 + 7 * 1e-6 + 7e9 / 100e9);
}

TEST(CollectiveTime, AcrossNodesUsesThePortsOfTheRanksThatShareANode) {
  // Every eighth rank: one of each node, with one port.
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_gather, 1, 4e9}, {4, 8}, linked(), network),
                   5e-6 + 3 * 4e-6 + 3e9 / 10e9);
  // Every second one: four of each node, with four ports.
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_gather, 1, 4e9}, {8, 2}, linked(), network),
                   5e-6 + 7 * 4e-6 + 3.5e9 / 40e9);
  // All: no more than the links inside a node move.
  Profile slow = linked();
  slow.node.bytes_per_s = 30e9;
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_gather, 1, 16e9}, {16, 1}, slow, network),
                   5e-6 + 15 * 4e-6 + 15e9 / 30e9);
}

TEST(CollectiveTime, OfAnyRanksUsesThePortsOfTheNodeThatHasFewest) {
  // Of nodes of 8.
  const auto time = [](const std::vector<int>& ranks) {
    return ring_time({Kind::all_gather, 1, 3e9}, spread_of(ranks, network), linked(), network);
  };
  EXPECT_DOUBLE_EQ(time({8, 9, 15}), 5e-6 + 2 * 1e-6 + 2e9 / 100e9);
  EXPECT_DOUBLE_EQ(time({6, 7, 8}), 5e-6 + 2 * 4e-6 + 2e9 / 10e9);
  EXPECT_DOUBLE_EQ(time({0, 1, 8, 9}), 5e-6 + 3 * 4e-6 + 2.25e9 / 20e9);
}

TEST(CollectiveTime, OfOneRankIsNone) {
  EXPECT_EQ(collective_time({Kind::all_reduce, 1, 8e9}, {1, 1}, linked(), network), 0);
}

TEST(CollectiveTime, TakesTheMeasurementWhoseGroupIsNearest) {
  Profile profile = linked();
  profile.collectives = {{Kind::all_gather, false, 2, {0, 1e9}},
                         {Kind::all_gather, false, 8, {0, 2e9}},
                         {Kind::all_gather, true, 8, {0, 4e9}},
                         {Kind::all_reduce, false, 8, {0, 8e9}}};
  const auto gather = [&](const Group& group) {
    return collective_time({Kind::all_gather, 1, 8e9}, group, profile, network);
  };
  EXPECT_DOUBLE_EQ(gather({2, 1}), 5e-6 + 4e9 / 1e9);
  EXPECT_DOUBLE_EQ(gather({8, 1}), 5e-6 + 7e9 / 2e9);
  EXPECT_DOUBLE_EQ(gather({16, 1}), 5e-6 + 7.5e9 / 4e9);
}

TEST(MessageTime, KnowsWhichRanksShareANode) {
  EXPECT_DOUBLE_EQ(message_time(1e9, 0, 7, linked(), network), 6e-6 + 1e9 / 100e9);
  EXPECT_DOUBLE_EQ(message_time(1e9, 7, 8, linked(), network), 9e-6 + 1e9 / 10e9);
  EXPECT_EQ(message_time(0, 7, 8, linked(), network), 0);
}

}  // namespace
}  // namespace trireme::planner
