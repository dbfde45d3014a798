// Times of collectives and messages against closed formulas.
#include "runtime/cost/network.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "runtime/cost/stage_time.h"
#include "tests/cost/tiny_profile.h"

namespace trireme::cost {
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
  // Every second one: four of each node, with four ports. Of seven steps one is between nodes.
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_gather, 1, 4e9}, {8, 2}, linked(), network),
                   5e-6 + 4e-6 + 6 * 1e-6 + 3.5e9 / 40e9);
  // All: no more than the links inside a node move.
  Profile slow = linked();
  slow.node.bytes_per_s = 30e9;
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_gather, 1, 16e9}, {16, 1}, slow, network),
                   5e-6 + 4e-6 + 14 * 1e-6 + 15e9 / 30e9);
  // Twice round, over 2048 nodes.
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_reduce, 1, 16384e9}, {16384, 1}, slow, network),
                   5e-6 + 2 * (2047 * 4e-6 + 14336 * 1e-6) + 2 * 16383e9 / 30e9);
}

void expect_spread(const Group& group, int nodes, int local) {
  const Spread spread = spread_of(group, network);
  EXPECT_EQ(spread.nodes, nodes) << group.size << " every " << group.stride;
  EXPECT_EQ(spread.local, local) << group.size << " every " << group.stride;
}

TEST(Spread, IsThatOfTheGroupThatNodesSplitMost) {
  expect_spread({1, 1}, 1, 1);
  expect_spread({4, 2}, 1, 4);
  expect_spread({16, 4}, 8, 2);
  expect_spread({4, 8}, 4, 1);
  expect_spread({4, 12}, 4, 1);
  // Ranks 6, 7 | 8, where ranks 0 to 2 share a node.
  expect_spread({3, 1}, 2, 1);
  // Ranks 6 to 7 | 8 to 11.
  expect_spread({6, 1}, 2, 2);
  // The mesh has ranks 0 to 5 only: no group lies on two nodes.
  expect_spread({3, 1, 6}, 1, 3);
  // Those that begin at rank 3, and at rank 6: of one pipeline rank each.
  expect_spread({3, 1, 3, 3}, 1, 3);
  expect_spread({3, 1, 3, 6}, 2, 1);
  // Ranks 0, 3, 6 | 9 and 2, 5 | 8, 11.
  expect_spread({4, 3, 12}, 2, 1);
  // 12 ranks, then 12 more: 8 | 4, 4 | 8.
  expect_spread({12, 1}, 2, 4);
}

TEST(CollectiveTime, IsThatOfTheGroupThatNodesSplitMost) {
  EXPECT_DOUBLE_EQ(collective_time({Kind::all_gather, 1, 3e9}, {3, 1}, linked(), network),
                   5e-6 + 4e-6 + 1e-6 + 2e9 / 10e9);
}

TEST(CollectiveTime, OfAnyRanksUsesThePortsOfTheNodeThatHasFewest) {
  // Of nodes of 8.
  const auto time = [](const std::vector<int>& ranks) {
    return ring_time({Kind::all_gather, 1, 3e9}, spread_of(ranks, network), linked(), network);
  };
  EXPECT_DOUBLE_EQ(time({8, 9, 15}), 5e-6 + 2 * 1e-6 + 2e9 / 100e9);
  EXPECT_DOUBLE_EQ(time({6, 7, 8}), 5e-6 + 4e-6 + 1e-6 + 2e9 / 10e9);
  EXPECT_DOUBLE_EQ(time({0, 1, 8, 9}), 5e-6 + 4e-6 + 2 * 1e-6 + 2.25e9 / 20e9);
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

TEST(MessageTime, BetweenPipelineRanksIsTheSlowestOfAllTheirRanks) {
  for (const MeshShape& mesh : {MeshShape(3, 4, 1), MeshShape(1, 5, 3), MeshShape(2, 3, 2)})
    for (int per_node = 1; per_node <= mesh.size(); ++per_node)
      for (int from = 0; from < mesh.size(Axis::pipeline); ++from)
        for (int to = 0; to < mesh.size(Axis::pipeline); ++to) {
          const Network nodes{per_node, network.port};
          const int ranks = mesh.size() / mesh.size(Axis::pipeline);
          double slowest = 0;
          for (int r = 0; r < ranks; ++r)
            slowest = std::max(
                slowest, message_time(1e9, from * ranks + r, to * ranks + r, linked(), nodes));
          EXPECT_EQ(hop_time(1e9, from, to, mesh, linked(), nodes), slowest)
              << mesh.describe() << ", " << from << " to " << to << ", nodes of " << per_node;
        }
}

}  // namespace
}  // namespace trireme::cost
