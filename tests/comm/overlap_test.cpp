// Several operations of one group in flight: their order, the waits for them, and what hostile mode
// finds.
#include <functional>
#include <initializer_list>

#include "tests/support/overlap_checks.h"
#include "tests/support/sum_checks.h"

namespace trireme {
namespace {

TEST(Overlap, ManyOperationsMayBeInFlightAndAwaitedInAnyOrder) {
  for (const ThreadTransport& transport :
       {ThreadTransport{}, ThreadTransport{.ranks_per_node = 2},
        ThreadTransport{.reach = ThreadReachable::allocated}, ThreadTransport{.hostile_seed = 7},
        ThreadTransport{.hostile_seed = 8, .ranks_per_node = 2}})
    for (int ranks : {2, 3, 4})
      run_on_threads(
          MeshShape(ranks, 1, 1),
          [](Mesh& mesh) { check_many_in_flight(mesh, mesh.world(), Memory::ordinary, 60, 3); },
          transport);
}

TEST(Overlap, MoreOperationsThanTheRingHoldsWaitForTheirPlace) {
  run_on_threads(MeshShape(3, 1, 1), [](Mesh& mesh) {
    check_many_in_flight(mesh, mesh.world(), Memory::ordinary, 400, 4);
  });
}

TEST(Overlap, WaitingForOneGroupServesTheOthers) {
  run_on_threads(MeshShape(2, 1, 2), [](Mesh& mesh) { check_crossed_waits(mesh, 200); },
                 {.timeout_s = 60});
  run_on_threads(MeshShape(2, 1, 2), [](Mesh& mesh) { check_crossed_waits(mesh, 30); },
                 {.hostile_seed = 9, .timeout_s = 60});
}

/// On 5 ranks, on nodes of so many (0: one node), with and without reach into all of their memory.
void on_all_reaches(std::initializer_list<int> ranks_per_node,
                    const std::function<void(Mesh&)>& check) {
  for (const int per_node : ranks_per_node)
    for (const ThreadReachable reach : {ThreadReachable::everything, ThreadReachable::allocated})
      run_on_threads(MeshShape(5, 1, 1), check, {.ranks_per_node = per_node, .reach = reach});
}

TEST(Overlap, SumsAddInTheOrderOfTheRanks) {
  on_all_reaches({0, 1}, [](Mesh& mesh) {
    check_order_of_sums<float>(mesh, mesh.world(), Memory::ordinary);
    check_order_of_sums<Bf16>(mesh, mesh.world(), Memory::ordinary);
  });
}

TEST(Overlap, SumsHaveTheSameBitsHoweverTheyAreCut) {
  on_all_reaches({0, 1, 2}, [](Mesh& mesh) {
    check_bits_of_any_cut<float>(mesh, mesh.world(), Memory::ordinary);
    check_bits_of_any_cut<Bf16>(mesh, mesh.world(), Memory::ordinary);
  });
}

TEST(Overlap, ABufferReadBeforeTheWaitIsGarbageInHostileMode) {
  run_on_threads(MeshShape(2, 1, 1),
                 [](Mesh& mesh) {
                   HostStream stream;
                   float sent = 1, received = 2;
                   const Message send{1, &sent, 4}, receive{0, &received, 4};
                   Ticket ticket;
                   if (mesh.rank() == 1) {
                     ticket = mesh.world().start_exchange({}, {&receive, 1}, stream);
                     EXPECT_NE(received, 2);
                     EXPECT_NE(received, received);  // NaN
                   }
                   mesh.world().barrier();
                   if (mesh.rank() == 0)
                     ticket = mesh.world().start_exchange({&send, 1}, {}, stream);
                   mesh.world().wait(ticket, stream);
                   EXPECT_EQ(received, mesh.rank() == 1 ? 1 : 2);
                 },
                 {.hostile_seed = 1});
}

TEST(Overlap, ASendWaitsForItsReceive) {
  run_on_threads(MeshShape(2, 1, 1), [](Mesh& mesh) {
    HostStream stream;
    int sent = 1, received = 2;
    const Message send{1, &sent, 4}, receive{0, &received, 4};
    Ticket ticket;
    if (mesh.rank() == 0) {
      ticket = mesh.world().start_exchange({&send, 1}, {}, stream);
      for (int i = 0; i < 100; ++i) EXPECT_FALSE(mesh.world().done(ticket));
    }
    mesh.world().barrier();
    if (mesh.rank() == 1) ticket = mesh.world().start_exchange({}, {&receive, 1}, stream);
    mesh.world().wait(ticket, stream);
    EXPECT_EQ(received, mesh.rank() == 1 ? 1 : 2);
  });
}

}  // namespace
}  // namespace trireme
