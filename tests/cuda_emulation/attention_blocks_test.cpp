// In which order attention's blocks run: more pairs than stay in the cache are beyond what the
// emulation can run.
#include <array>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/attention.cuh"

namespace trireme::kernels::gpu {
namespace {

TEST(AttentionBlocks, EachRunsOnceAndPairsThatShareTheCacheStayTogether) {
  for (const auto& [blocks, pairs, together] : std::vector<std::array<int, 3>>{
           {1, 1, 1}, {8, 384, 64}, {3, 7, 2}, {5, 7, 3}, {4, 6, 6}, {2, 5, 1}}) {
    std::set<std::pair<int, int>> seen;
    int last_group = 0, last_block = 0;
    for (int index = 0; index < blocks * pairs; ++index) {
      const BlockPlace place = block_place(index, blocks, pairs, together);
      const int group = place.pair / together;
      EXPECT_TRUE(place.block >= 0 && place.block < blocks && place.pair < pairs);
      EXPECT_TRUE(seen.insert({place.block, place.pair}).second) << "twice";
      EXPECT_TRUE(group == last_group ? place.block >= last_block : group == last_group + 1);
      last_group = group;
      last_block = place.block;
    }
  }
}

}  // namespace
}  // namespace trireme::kernels::gpu
