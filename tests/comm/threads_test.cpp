// Every collective over threads: one node and simulated ones, memory in and out of reach, friendly
// and hostile.
#include <array>

#include <gmock/gmock.h>

#include "tests/support/collective_checks.h"

namespace trireme {
namespace {

using testing::HasSubstr;

void check_on_threads(int ranks, Memory memory, const ThreadTransport& transport,
                      Index largest = 5000) {
  run_on_threads(
      MeshShape(ranks, 1, 1),
      [&](Mesh& mesh) { check_everything(mesh, mesh.world(), memory, largest); }, transport);
}

TEST(Threads, EveryCollectiveIsExactForAnyGroupSize) {
  for (int ranks : {1, 2, 3, 4, 5, 8}) check_on_threads(ranks, Memory::ordinary, {});
}

TEST(Threads, MemoryOutOfReachGoesThroughBounceBuffers) {
  for (int ranks : {2, 3}) {
    const ThreadTransport transport{.reach = ThreadReachable::allocated};
    check_on_threads(ranks, Memory::ordinary, transport, 70001);  // several rounds
    check_on_threads(ranks, Memory::allocated, transport);
  }
}

TEST(Threads, GroupsThatSpanNodesAreExact) {
  for (int ranks_per_node : {1, 2, 3})
    for (int ranks : {4, 5, 7}) {
      check_on_threads(ranks, Memory::ordinary, {.ranks_per_node = ranks_per_node});
      check_on_threads(ranks, Memory::ordinary,
                       {.ranks_per_node = ranks_per_node, .reach = ThreadReachable::allocated});
    }
}

TEST(Threads, GroupsThatSpanNodesWorkInSeveralRounds) {
  for (int ranks_per_node : {1, 2, 3})
    check_on_threads(5, Memory::ordinary,
                     {.ranks_per_node = ranks_per_node, .reach = ThreadReachable::allocated},
                     140001);
}

TEST(Threads, EqualCountsAreTheSameOperationAsEqualParts) {
  run_on_threads(MeshShape(2, 1, 1), [](Mesh& mesh) {
    HostStream stream;
    const std::array<Index, 2> counts = {3, 3};
    std::array<float, 6> x = {1, 2, 3, 4, 5, 6};
    const Elements all{x.data(), 6, DType::f32}, mine{x.data() + mesh.rank() * 3, 3, DType::f32};
    const Parts parts = mesh.rank() == 0 ? Parts{counts} : Parts{};
    mesh.world().reduce_scatter(all, mine, Reduction::sum, stream, parts);
    mesh.world().all_gather(mine, all, stream, parts);
    EXPECT_THAT(x, testing::ElementsAre(2, 4, 6, 8, 10, 12));
  });
}

TEST(Threads, HostileTimingChangesNothing) {
  for (std::uint64_t seed : {1, 2}) {
    check_on_threads(3, Memory::ordinary, {.hostile_seed = seed}, 2000);
    check_on_threads(4, Memory::ordinary, {.hostile_seed = seed, .ranks_per_node = 2}, 2000);
    check_on_threads(
        3, Memory::ordinary,
        {.hostile_seed = seed, .ranks_per_node = 2, .reach = ThreadReachable::allocated}, 2000);
  }
}

}  // namespace
}  // namespace trireme
