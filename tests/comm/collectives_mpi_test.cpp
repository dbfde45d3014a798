// Every collective over processes, on one node and across (fake) nodes: the checks of threads_test,
// and what only processes have: shared memory, its fall-back, private buffers.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <sys/statvfs.h>

#include "trireme/comm/agree.h"

#include "runtime/comm/page_of.h"
#include "runtime/observe/page_reader.h"
#include "tests/support/mpi_ranks.h"
#include "tests/support/overlap_checks.h"
#include "tests/support/sum_checks.h"

namespace trireme {
namespace {

std::unique_ptr<Mesh> make_mesh() {
  return mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
}

TEST(Mpi, EveryCollectiveIsExactInSharedMemory) {
  const auto mesh = make_mesh();
  check_everything(*mesh, mesh->world(), Memory::allocated, 300001);
}

TEST(Mpi, EveryCollectiveIsExactInOrdinaryMemory) {
  const auto mesh = make_mesh();
  check_everything(*mesh, mesh->world(), Memory::ordinary, 300001);
}

TEST(Mpi, GroupsOfTheMeshAreExact) {
  const int ranks = mpi_session().size();
  const int tensor = ranks % 2 == 0 ? 2 : 1, pipeline = ranks % 4 == 0 ? 2 : 1;
  const auto mesh = mpi_session().make_mesh(MeshShape(ranks / tensor / pipeline, pipeline, tensor));
  for (Axis axis : {Axis::pipeline, Axis::data, Axis::tensor})
    check_everything(*mesh, mesh->axis(axis), Memory::ordinary, 1000);
  const auto group = mesh->split(mesh->rank() % 3, "thirds");
  check_everything(*mesh, *group, Memory::ordinary, 1000);
  mesh->world().barrier();
}

TEST(Mpi, GroupsCanBeMadeAfterWaitsThatLasted) {
  const auto mesh = make_mesh();
  // The others ask what keeps rank 0; a question that MPI took for its own would end up in the
  // making of a group.
  if (mesh->rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  mesh->world().barrier();
  const auto other = mpi_session().make_mesh(MeshShape(1, 1, mpi_session().size()));
  for (int i = 0; i < 5; ++i) other->split(0, "all")->barrier();
}

TEST(Mpi, ManyOperationsMayBeInFlightAndAwaitedInAnyOrder) {
  const auto mesh = make_mesh();
  for (Memory memory : {Memory::allocated, Memory::ordinary})
    check_many_in_flight(*mesh, mesh->world(), memory, 150, 11);
}

TEST(Mpi, WaitingForOneGroupServesTheOthers) {
  const int ranks = mpi_session().size(), tensor = ranks % 2 == 0 ? 2 : 1;
  const auto mesh =
      mpi_session().make_mesh(MeshShape(ranks / tensor, 1, tensor), {.timeout_s = 60});
  check_crossed_waits(*mesh, 300);
}

TEST(Mpi, SumsOnANodeAddInTheOrderOfTheRanks) {
  const auto mesh = make_mesh();
  if (mpi_session().node_size() != mpi_session().size()) return;  // then node by node
  for (Memory memory : {Memory::allocated, Memory::ordinary}) {
    check_order_of_sums<float>(*mesh, mesh->world(), memory);
    check_order_of_sums<Bf16>(*mesh, mesh->world(), memory);
  }
}

TEST(Mpi, SumsHaveTheSameBitsHoweverTheyAreCut) {
  const auto mesh = make_mesh();
  for (Memory memory : {Memory::allocated, Memory::ordinary}) {
    check_bits_of_any_cut<float>(*mesh, mesh->world(), memory);
    check_bits_of_any_cut<Bf16>(*mesh, mesh->world(), memory);
  }
}

TEST(Mpi, RanksMayAskForDifferentAmountsOfMemory) {
  const auto mesh = make_mesh();
  HostStream stream;
  const Index mine = mesh->rank() * 5000;
  const Buffer empty_on_rank_0 = mesh->allocate(mine), rest = mesh->allocate(4096);
  EXPECT_EQ(empty_on_rank_0.bytes(), mine);
  for (Index i = 0; i < mine; ++i) EXPECT_EQ(empty_on_rank_0.data()[i], std::byte{0});
  auto* x = reinterpret_cast<float*>(rest.data());
  x[0] = 1;
  mesh->world().all_reduce({x, 1, DType::f32}, Reduction::sum, stream);
  EXPECT_EQ(x[0], mesh->world().size());
  mesh->world().barrier();
}

TEST(Mpi, MoreThanTheMemoryFileSystemHoldsIsPrivateAndStillExact) {
  if (mpi_session().size() == 1) return;
  const auto mesh = make_mesh();
  EXPECT_THAT(mesh->memory_description(), testing::StartsWith("shared memory of "));
  HostStream stream;
  struct statvfs status {};
  ASSERT_EQ(::statvfs("/dev/shm", &status), 0);
  const Index all = static_cast<Index>(status.f_blocks) * static_cast<Index>(status.f_bsize);
  const Index mine = std::max<Index>(all / mpi_session().node_size() + 4096, 100000);
  const Buffer buffer = mesh->allocate(mine);  // hardly touched
  EXPECT_THAT(mesh->memory_description(), testing::AllOf(testing::StartsWith("private memory"),
                                                         testing::HasSubstr("/dev/shm has "),
                                                         testing::HasSubstr(" MiB free but its ")));
  auto* x = reinterpret_cast<float*>(buffer.data());
  for (Index i = 0; i < 20000; ++i) x[i] = static_cast<float>(test_value(mesh->rank(), i));
  mesh->world().all_reduce({x, 20000, DType::f32}, Reduction::sum, stream);
  Index wrong = 0;
  for (Index i = 0; i < 20000; ++i)
    wrong += x[i] != static_cast<float>(expected(Reduction::sum, mesh->world().size(), i));
  EXPECT_EQ(wrong, 0);
}

TEST(Mpi, ARankThatNeverComesIsNamedWhenTimeIsOver) {
  if (mpi_session().size() == 1) return;
  const auto patient = make_mesh();
  {
    const auto mesh =
        mpi_session().make_mesh(MeshShape(1, 1, mpi_session().size()), {.timeout_s = 3});
    patient->world().barrier();  // a rank that is late would be named, too
    if (mesh->rank() != 1) {
      try {
        mesh->world().barrier();
        ADD_FAILURE() << "a barrier without rank 1";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("world group: barrier (operation 1"));
        const bool one_node = mpi_session().node_size() == mpi_session().size();
        EXPECT_THAT(error.what(),
                    testing::HasSubstr(one_node ? "for rank 1 (world rank 1)" : "for "));
      }
    }
    patient->world().barrier();
  }
}

TEST(Mpi, RanksWithDifferentOperationsFail) {
  if (mpi_session().size() == 1) return;
  const bool one_node = mpi_session().node_size() == mpi_session().size();
  const auto patient = make_mesh();
  {
    const auto mesh = mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1),
                                              {.timeout_s = one_node ? 60.0 : 3.0});
    HostStream stream;
    std::vector<float> x(200);
    const Index count = mesh->rank() == 1 ? 100 : 200;
    try {
      mesh->world().all_reduce({x.data(), count, DType::f32}, Reduction::sum, stream);
      ADD_FAILURE() << "different operations went through";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(str("all_reduce sum of ", count, " f32")));
      // Other nodes may only notice that a rank never comes.
      const Index other = one_node ? 300 - count : count;
      EXPECT_THAT(error.what(), testing::HasSubstr(str("all_reduce sum of ", other, " f32")));
    }
    patient->world().barrier();
  }
}

TEST(Mpi, PagesShowAllElementsOfUnequalParts) {
  if (mpi_session().size() == 1) return;
  const auto mesh = make_mesh();
  HostStream stream;
  std::vector<Index> counts(static_cast<std::size_t>(mpi_session().size()), 10);
  counts[1] = 30;
  const Index mine = mesh->rank() == 1 ? 30 : 10, all = 10 * mpi_session().size() + 20;
  std::vector<float> in(static_cast<std::size_t>(mine)), out(static_cast<std::size_t>(all));
  mesh->world().all_gather({in.data(), mine, DType::f32}, {out.data(), all, DType::f32}, stream,
                           {counts});
  observe::StatusPage none;
  const observe::PageState page = observe::PageReader(comm::page_of(*mesh, none).path()).read();
  const auto shown = std::find_if(
      page.operations.rbegin(), page.operations.rend(),
      [](const auto& each) { return each.kind == observe::OperationKind::all_gather; });
  EXPECT_EQ(shown == page.operations.rend() ? -1 : shown->count, all);
  mesh->world().barrier();
}

TEST(Mpi, AgreeingEndsAllWithTheMessageOfTheLowestFailingRank) {
  const auto mesh = make_mesh();
  HostStream stream;
  const int last = mesh->world().size() - 1;
  try {
    agree({*mesh, stream}, [&] {
      if (mesh->rank() == last) throw Error("no such file");
    });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), str("rank ", last, ": no such file"));
  }
}

}  // namespace
}  // namespace trireme
