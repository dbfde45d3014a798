// The groups of a mesh, its memory, and a mesh of one rank; the numbers of nodes; sums of several
// sources.
#include "trireme/comm/mesh.h"

#include <gmock/gmock.h>

#include "trireme/core/random.h"

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/comm/node/reduce.h"
#include "runtime/comm/node/topology.h"
#include "tests/support/collective_checks.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// Each axis of the mesh is a group, and its members are those that the shape names.
void expect_slices(Mesh& mesh) {
  HostStream stream;
  EXPECT_EQ(mesh.world().size(), 12);
  for (const auto& [axis, size] : mesh.shape().axes()) {
    Communicator& group = mesh.axis(axis);
    EXPECT_EQ(group.name(), name(axis));
    EXPECT_EQ(group.size(), size);
    EXPECT_EQ(group.rank(), mesh.coordinate(axis));
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(group.size()));
    const std::int32_t mine = mesh.rank();
    group.all_gather({const_cast<std::int32_t*>(&mine), 1, DType::i32},
                     {ranks.data(), group.size(), DType::i32}, stream);
    EXPECT_EQ(ranks, mesh.shape().group(mesh.rank(), axis));
  }
}

TEST(Mesh, AxesAreTheSlicesOfTheShape) { run_on_threads(MeshShape(2, 3, 2), expect_slices); }

TEST(Mesh, HasAGroupForEveryAxisOfAnyList) {
  const MeshShape shape({{Axis::data, 2}, {Axis("context"), 3}, {Axis::tensor, 2}});
  run_on_threads(shape, expect_slices);
}

// The groups of roles that span one axis, several, or none.
TEST(Mesh, HasAGroupForEveryRole) {
  for (const MeshShape& shape : {MeshShape(2, 3, 2), MeshShape({{Axis("context"), 4}})})
    run_on_threads(shape, [](Mesh& mesh) {
      HostStream stream;
      for (const Role role : {Role::model, Role::tensor, Role::layers, Role::model}) {
        Communicator& group = mesh.group(role);
        EXPECT_EQ(group.rank(), mesh.coordinate(role));
        std::int32_t sum = mesh.rank(), expected = 0;
        group.all_reduce({&sum, 1, DType::i32}, Reduction::sum, stream);
        for (const int rank : mesh.shape().group(mesh.rank(), role)) expected += rank;
        EXPECT_EQ(sum, expected) << name(role);
      }
    });
}

TEST(Mesh, SplitMakesGroupsInTheOrderOfWorldRank) {
  run_on_threads(MeshShape(5, 1, 1), [](Mesh& mesh) {
    HostStream stream;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const int color = mesh.rank() == 3 ? -1 : mesh.rank() % 2;
      const auto group = mesh.split(color, "tied");
      ASSERT_EQ(group == nullptr, color < 0);
      if (!group) continue;
      EXPECT_EQ(group->size(), color == 0 ? 3 : 1);
      EXPECT_EQ(group->rank(), color == 0 ? mesh.rank() / 2 : 0);
      double x = mesh.rank();
      group->all_reduce({&x, 1, DType::f64}, Reduction::sum, stream);
      EXPECT_EQ(x, color == 0 ? 6 : 1);
    }
  });
}

TEST(Mesh, AllocatedMemoryIsZeroAndAligned) {
  const auto check = [](Mesh& mesh) {
    const Buffer buffer = mesh.allocate(10000 + mesh.rank());
    EXPECT_EQ(buffer.bytes(), 10000 + mesh.rank());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0u);
    for (Index i = 0; i < buffer.bytes(); ++i) EXPECT_EQ(buffer.data()[i], std::byte{0});
    EXPECT_FALSE(mesh.allocate(0));
  };
  check(*make_self_mesh());
  run_on_threads(MeshShape(2, 1, 1), check);
}

TEST(Mesh, OfOneRankDoesEveryCollective) {
  const auto mesh = make_self_mesh();
  check_everything(*mesh, mesh->world(), Memory::ordinary, 100);
  check_everything(*mesh, mesh->axis(Axis::tensor), Memory::allocated, 100);
  HostStream stream;
  int from = 5, to = 6;
  const Message send{0, &from, 4}, receive{0, &to, 4};
  mesh->world().exchange({&send, 1}, {&receive, 1}, stream);
  EXPECT_EQ(to, 5);
  EXPECT_EQ(mesh->split(3, "x")->size(), 1);
  EXPECT_EQ(mesh->split(-1, "x"), nullptr);
}

TEST(MpiSession, WithoutMpirunIsOneRank) {
  int argc = 0;
  char** argv = nullptr;
  MpiSession session(argc, argv);
  EXPECT_EQ(session.size(), 1);
  EXPECT_EQ(session.node_size(), 1);
  EXPECT_EQ(session.make_mesh(MeshShape(1, 1, 1))->world().size(), 1);
  EXPECT_THROW(session.make_mesh(MeshShape(2, 1, 1)), Error);
}

TEST(Topology, NumbersNodesByTheirLowestRank) {
  const comm::Topology topology({7, 3, 7, 3, 3}, 2);
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.node, 0);
  EXPECT_EQ(topology.local(), 1);
  EXPECT_EQ(topology.lanes, 2);
  EXPECT_THAT(topology.ranks[1], ElementsAre(1, 3, 4));
  EXPECT_EQ(topology.helper(4, 1), 4);
  EXPECT_EQ(topology.helper(4, 0), 0);
  EXPECT_EQ(topology.helper(3, 0), 2);
}

TEST(Reduce, TakesSourcesInOrderAndMayWriteOverThem) {
  for (Index count : {0, 1, 15, 16, 17, 1000}) {
    std::vector<float> a(static_cast<std::size_t>(count), 1e8f), b(a.size(), 1.0f),
        c(a.size(), -1e8f);
    const std::byte* sources[] = {reinterpret_cast<std::byte*>(a.data()),
                                  reinterpret_cast<std::byte*>(b.data()),
                                  reinterpret_cast<std::byte*>(c.data())};
    std::byte* targets[] = {reinterpret_cast<std::byte*>(c.data()),
                            reinterpret_cast<std::byte*>(a.data())};
    comm::reduce(DType::f32, Reduction::sum, sources, targets, count);
    EXPECT_THAT(a, testing::Each(0.0f));  // (1e8 + 1) - 1e8; any other order gives 1
    EXPECT_THAT(c, testing::Each(0.0f));
  }
}

TEST(Reduce, TakesMoreSourcesThanOneLoopReads) {
  for (std::size_t ranks : {8, 9, 15, 16, 23}) {
    std::vector<std::vector<float>> x(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
      for (Index i = 0; i < 3000; ++i) x[r].push_back(random_for(1, "x", r).normal(i));
    std::vector<float> want = x[0];
    for (std::size_t r = 1; r < ranks; ++r)
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += x[r][i];
    std::vector<const std::byte*> sources;
    for (auto& source : x) sources.push_back(reinterpret_cast<std::byte*>(source.data()));
    std::byte* targets[] = {reinterpret_cast<std::byte*>(x[ranks - 1].data()),
                            reinterpret_cast<std::byte*>(x[2].data())};
    comm::reduce(DType::f32, Reduction::sum, sources, targets, 3000);
    EXPECT_EQ(x[ranks - 1], want);
    EXPECT_EQ(x[2], want);
  }
}

TEST(Reduce, ANanWinsInMaxAndMin) {
  for (Reduction reduction : {Reduction::max, Reduction::min})
    for (int place : {0, 1, 2}) {
      std::vector<std::vector<double>> x(3, std::vector<double>(11, 1.0));
      x[static_cast<std::size_t>(place)].assign(11, std::nan(""));
      const std::byte* sources[3];
      for (std::size_t s = 0; s < 3; ++s) sources[s] = reinterpret_cast<std::byte*>(x[s].data());
      std::byte* target = reinterpret_cast<std::byte*>(x[0].data());
      comm::reduce(DType::f64, reduction, sources, {&target, 1}, 11);
      for (double value : x[0]) EXPECT_TRUE(std::isnan(value));
    }
}

}  // namespace
}  // namespace trireme
