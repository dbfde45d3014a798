// Ranks, coordinates and groups of meshes of any list of axes.
#include "trireme/core/mesh_shape.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

// Ranks 0, 1, 2, ... reshaped to [pipeline][data][tensor]; a group is one slice.
class Grid {
 public:
  Grid(int data, int pipeline, int tensor) {
    int rank = 0;
    cells_.resize(static_cast<std::size_t>(pipeline));
    for (auto& stage : cells_) {
      stage.resize(static_cast<std::size_t>(data));
      for (auto& replica : stage)
        for (int t = 0; t < tensor; ++t) replica.push_back(rank++);
    }
  }
  int at(int p, int d, int t) const {
    return cells_[static_cast<std::size_t>(p)][static_cast<std::size_t>(d)]
                 [static_cast<std::size_t>(t)];
  }

 private:
  std::vector<std::vector<std::vector<int>>> cells_;
};

void expect_slices(int data, int pipeline, int tensor) {
  const MeshShape mesh(data, pipeline, tensor);
  const Grid grid(data, pipeline, tensor);
  ASSERT_EQ(mesh.size(), data * pipeline * tensor);
  for (int p = 0; p < pipeline; ++p)
    for (int d = 0; d < data; ++d)
      for (int t = 0; t < tensor; ++t) {
        const int rank = grid.at(p, d, t);
        EXPECT_EQ(mesh.rank_at({{Axis::data, d}, {Axis::pipeline, p}, {Axis::tensor, t}}), rank);
        EXPECT_EQ(mesh.coordinate(rank, Axis::pipeline), p);
        EXPECT_EQ(mesh.coordinate(rank, Axis::data), d);
        EXPECT_EQ(mesh.coordinate(rank, Axis::tensor), t);
        std::vector<int> along_p, along_d, along_t;
        for (int i = 0; i < pipeline; ++i) along_p.push_back(grid.at(i, d, t));
        for (int i = 0; i < data; ++i) along_d.push_back(grid.at(p, i, t));
        for (int i = 0; i < tensor; ++i) along_t.push_back(grid.at(p, d, i));
        EXPECT_EQ(mesh.group(rank, Axis::pipeline), along_p);
        EXPECT_EQ(mesh.group(rank, Axis::data), along_d);
        EXPECT_EQ(mesh.group(rank, Axis::tensor), along_t);
      }
}

TEST(MeshShape, GroupsAreSlicesOfOneArray) {
  for (const int data : {1, 2, 3})
    for (const int pipeline : {1, 2, 5})
      for (const int tensor : {1, 2, 4}) expect_slices(data, pipeline, tensor);
}

TEST(MeshShape, KeepsTensorGroupsTogether) {
  const MeshShape mesh(2, 2, 2);
  EXPECT_EQ(mesh.group(5, Axis::tensor), (std::vector<int>{4, 5}));
  EXPECT_EQ(mesh.group(5, Axis::data), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.group(5, Axis::pipeline), (std::vector<int>{1, 5}));
}

TEST(MeshShape, RefusesAPositionThatNamesAnAxisTwice) {
  const MeshShape mesh(4, 1, 1);
  EXPECT_EQ(mesh.rank_at({{Axis::data, 1}, {Axis::tensor, 0}}), 1);
  EXPECT_THROW(mesh.rank_at({{Axis::data, 1}, {Axis::data, 2}}), Error);
}

// What a new kind of parallelism adds: one more entry of the list, between two others.
TEST(MeshShape, TakesAnyOrderedListOfAxes) {
  const Axis context("context");
  const MeshShape mesh({{Axis::pipeline, 2}, {Axis::data, 3}, {context, 2}, {Axis::tensor, 2}});
  ASSERT_EQ(mesh.size(), 24);
  EXPECT_EQ(mesh.describe(), "pipeline 2 x data 3 x context 2 x tensor 2 = 24 ranks");
  int rank = 0;
  for (int p = 0; p < 2; ++p)
    for (int d = 0; d < 3; ++d)
      for (int c = 0; c < 2; ++c)
        for (int t = 0; t < 2; ++t, ++rank) {
          EXPECT_EQ(mesh.coordinate(rank, Axis::pipeline), p);
          EXPECT_EQ(mesh.coordinate(rank, Axis::data), d);
          EXPECT_EQ(mesh.coordinate(rank, context), c);
          EXPECT_EQ(mesh.coordinate(rank, Axis::tensor), t);
          EXPECT_EQ(mesh.rank_at({{context, c}, {Axis::pipeline, p}, {Axis::tensor, t}}),
                    rank - 4 * d);
        }
  EXPECT_EQ(mesh.group(13, context), (std::vector<int>{13, 15}));
  EXPECT_EQ(mesh.group(13, Axis::data), (std::vector<int>{13, 17, 21}));
  EXPECT_EQ(mesh.group(13, Axis::pipeline), (std::vector<int>{1, 13}));
}

TEST(MeshShape, RefusesAnAxisThatIsNamedTwice) {
  EXPECT_THROW(MeshShape({{Axis::data, 2}, {Axis::data, 2}}), Error);
  EXPECT_THROW(MeshShape({{Axis::data, 2}, {Axis(std::string("data").c_str()), 2}}), Error);
  EXPECT_THROW(MeshShape(std::vector<MeshShape::Extent>{}), Error);
}

constexpr Role roles[] = {Role::stage,  Role::batch,  Role::gradient, Role::shard,
                          Role::tensor, Role::layers, Role::model};

// The groups of each role share out the ranks; a coordinate is the place in the group.
TEST(MeshShape, GroupsOfEachRoleShareOutTheRanks) {
  for (const MeshShape& mesh :
       {MeshShape(2, 3, 4), MeshShape(1, 2, 1),
        MeshShape({{Axis::pipeline, 2}, {Axis("context"), 3}, {Axis::tensor, 2}})})
    for (const Role role : roles) {
      for (int rank = 0; rank < mesh.size(); ++rank) {
        const std::vector<int> group = mesh.group(rank, role);
        ASSERT_EQ(std::ssize(group), mesh.size(role)) << name(role);
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
        EXPECT_EQ(group.at(static_cast<std::size_t>(mesh.coordinate(rank, role))), rank);
        for (const int other : group) EXPECT_EQ(mesh.group(other, role), group);
      }
      EXPECT_EQ(mesh.rank_at({{role, mesh.size(role) - 1}}), mesh.group(0, role).back());
    }
}

TEST(MeshShape, KnowsWhichAxesARoleSpans) {
  const MeshShape mesh(2, 3, 4);
  EXPECT_EQ(mesh.group(13, Role::stage), mesh.group(13, Axis::pipeline));
  for (const Role role : {Role::batch, Role::gradient, Role::shard})
    EXPECT_EQ(mesh.group(13, role), mesh.group(13, Axis::data));
  EXPECT_EQ(mesh.group(13, Role::tensor), mesh.group(13, Axis::tensor));
  EXPECT_EQ(mesh.group(13, Role::layers), (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(mesh.group(13, Role::model),
            (std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23}));
  EXPECT_EQ(mesh.only_axis(Role::shard), Axis::data);
  EXPECT_EQ(mesh.only_axis(Role::model), std::nullopt);
  EXPECT_EQ(mesh.rank_at({{Role::model, 5}, {Role::batch, 1}}), 13);
  EXPECT_THROW(mesh.rank_at({{Role::model, 5}, {Axis::tensor, 1}}), Error);
  EXPECT_THROW(mesh.rank_at({{Role::model, 12}}), Error);
}

TEST(MeshShape, DescribesItself) {
  EXPECT_EQ(MeshShape(2, 3, 4).place(13), "pipeline 1, data 1, tensor 1");
  EXPECT_EQ(MeshShape(2, 3, 4).short_place(13), "pp1 dp1 tp1");
  EXPECT_EQ(MeshShape(2, 3, 4).describe(), "pipeline 3 x data 2 x tensor 4 = 24 ranks");
}

TEST(MeshShape, RejectsWhatIsNoMesh) {
  EXPECT_THROW(MeshShape(0, 1, 1), Error);
  EXPECT_THROW(MeshShape(1, -2, 1), Error);
  EXPECT_THROW(MeshShape(65536, 65536, 1), Error);
  EXPECT_THROW(MeshShape(1 << 30, 1 << 30, 1 << 30), Error);
}

TEST(MeshShape, RejectsRanksAndCoordinatesOutside) {
  const MeshShape mesh(2, 2, 2);
  EXPECT_THROW(mesh.coordinate(8, Axis::data), Error);
  EXPECT_THROW(mesh.group(-1, Axis::tensor), Error);
  EXPECT_THROW(mesh.rank_at({{Axis::data, 2}}), Error);
  EXPECT_THROW(mesh.rank_at({{Axis::tensor, -1}}), Error);
  EXPECT_THROW(mesh.size(Axis("context")), Error);
}

}  // namespace
}  // namespace trireme
