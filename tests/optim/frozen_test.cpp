// Frozen parameters in the flat buffers, on every layout: only what ops read, loaded and saved, and
// never updated.
#include <gtest/gtest.h>

#include "runtime/optim/replica_hashes.h"
#include "tests/optim/mesh_steps.h"
#include "tests/optim/wide_model.h"

namespace trireme {
namespace {

using namespace testing;

/// Tied, replicated, summed over the tensor axis, split side by side, padded.
const std::set<std::string> frozen_parameters = {"table", "block.0.norm", "block.1.head_norm",
                                                 "block.2.query", "block.3.padded"};
/// Their logical tensors.
bool is_frozen(const std::string& tensor) {
  return frozen_parameters.count(tensor) > 0 || tensor == "block.2.key" ||
         tensor == "block.2.value";
}

struct Case {
  Layout layout;
  Update update;
  DType compute;
};

void for_each_rank(const std::function<void(const TinyRank&, const Case&)>& f) {
  for (const Layout& layout : layouts())
    for (const Update update : {Update::replicated, Update::sharded})
      for (const DType compute : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(describe(layout));
        for (int rank = 0; rank < layout.shape().size(); ++rank)
          f(TinyRank(layout.shape(), rank,
                     {.chunks = layout.chunks,
                      .update = update,
                      .compute = compute,
                      .frozen = frozen_parameters}),
            {layout, update, compute});
      }
}

TEST(FrozenParameters, LieBehindAllOthersWithoutGradientsMastersAndState) {
  for_each_rank([](const TinyRank& r, const Case& c) {
    const FlatLayout& flat = *r.layout;
    Index end = 0;
    for (const Bucket& bucket : flat.all_buckets()) {
      EXPECT_EQ(bucket.range.begin, end);
      EXPECT_EQ(bucket.frozen, end >= flat.trained_count());
      end = bucket.range.end();
      if (bucket.frozen) {
        EXPECT_EQ(flat.updated(bucket).count, 0);
      }
    }
    EXPECT_EQ(flat.count(), end);
    Index trained = 0, updated = 0;
    for (const Bucket& bucket : flat.buckets()) {
      trained += bucket.range.count;
      updated += flat.updated(bucket).count;
    }
    EXPECT_EQ(flat.trained_count(), trained);
    EXPECT_EQ(flat.gradient_bytes(), 4 * trained);
    EXPECT_EQ(flat.state_count(), updated);
    EXPECT_EQ(flat.parameter_bytes(), c.compute == DType::f32 ? 4 * end : 2 * end + 4 * updated);
    EXPECT_TRUE(flat.ties().empty());  // the tied table is not trained
    for (std::size_t i = 0; i < flat.parameters().size(); ++i)
      EXPECT_EQ(flat.bucket_with(flat.parameters()[i]).frozen,
                is_frozen(flat.declared(static_cast<int>(i)).name()));
    for (const FlatExtent& extent : flat.state_extents())
      EXPECT_FALSE(is_frozen(extent.extent.name)) << extent.extent.name;
    for (const FlatRange& range : flat.norm_ranges()) EXPECT_LE(range.end(), trained);
  });
}

TEST(FrozenParameters, AreWrittenOnceByAllRanksInTheTypeThatOpsRead) {
  std::map<std::string, std::map<std::string, std::vector<int>>> seen;  // per case, per tensor
  for_each_rank([&](const TinyRank& r, const Case& c) {
    const std::string one = str(describe(c.layout), static_cast<int>(c.update), c.compute);
    for (const FlatExtent& flat : r.layout->written_extents(FlatBuffer::masters)) {
      EXPECT_EQ(flat.extent.dtype, is_frozen(flat.extent.name) ? c.compute : DType::f32);
      std::vector<int>& counts = seen[one][flat.extent.name];
      counts.resize(static_cast<std::size_t>(flat.extent.global.count()));
      for_each_element(flat, [&](Index i, Index) { ++counts[static_cast<std::size_t>(i)]; });
    }
    for (const FlatExtent& flat : r.layout->written_extents(FlatBuffer::state))
      EXPECT_FALSE(is_frozen(flat.extent.name));
  });
  EXPECT_EQ(seen.size(), layouts().size() * 4);
  for (const auto& [one, tensors] : seen) {
    EXPECT_EQ(tensors.size(), 1u + 4 * 8) << one;
    for (const auto& [tensor, counts] : tensors)
      for (const int count : counts) ASSERT_EQ(count, 1) << one << tensor;
  }
}

// Copies of large ones share the work of writing: their slices have to be the same.
TEST(FrozenParameters, ThatAreTiedAreWrittenInPartsByTheirHolders) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(describe(layout));
    std::map<std::string, std::vector<int>> seen;
    for (int rank = 0; rank < layout.shape().size(); ++rank) {
      const TinyRank r(layout.shape(), rank,
                       {.chunks = layout.chunks,
                        .bucket_bytes = 1 << 30,  // with all others that are frozen
                        .model = wide_model,
                        .frozen = {"table", "position", "block.3.up"}});
      for (const FlatExtent& flat : r.layout->written_extents(FlatBuffer::masters)) {
        std::vector<int>& counts = seen[flat.extent.name];
        counts.resize(static_cast<std::size_t>(flat.extent.global.count()));
        for_each_element(flat, [&](Index i, Index) { ++counts[static_cast<std::size_t>(i)]; });
      }
    }
    EXPECT_EQ(seen.size(), 2u + 4 * 2);
    for (const auto& [tensor, counts] : seen)
      for (const int count : counts) ASSERT_EQ(count, 1) << tensor;
  }
}

/// What two steps make of the parameters, put together from all ranks.
std::map<std::string, std::vector<float>> trained(const Layout& layout, Update update,
                                                  const std::set<std::string>& frozen,
                                                  Index steps) {
  Gathered all;
  run_on_threads(layout.shape(), [&](Mesh& mesh) {
    StepRank r(mesh, layout, {.chunks = layout.chunks, .update = update, .frozen = frozen},
               {.weight_decay = 0.3, .clip_norm = 0});
    for (Index step = 0; step < steps; ++step) r.step(step, 0.01);
    all.add(r.model.flat->parameter_extents(), r.model.flat->master_data());
    if (layout.data == 1) return;
    const Buffer memory = r.device->allocate(ReplicaHashes::bytes(*r.model.flat));
    ReplicaHashes hashes(*r.model.flat, mesh, *r.stream, memory.data());
    hashes.start();
    hashes.wait();
    EXPECT_EQ(hashes.buckets(), static_cast<int>(r.model.flat->all_buckets().size()));
    EXPECT_FALSE(hashes.any_differs());
  });
  EXPECT_EQ(all.disagreements(), 0);
  return all.tensors();
}

TEST(FrozenParameters, KeepTheirBitsWhileAllOthersAreUpdatedAsEver) {
  const auto initial = trained({1, 1, 1, 1}, Update::replicated, {}, 0),
             without = trained({1, 1, 1, 1}, Update::replicated, {}, 2);
  for (const Layout& layout : layouts())
    for (const Update update : {Update::replicated, Update::sharded}) {
      SCOPED_TRACE(describe(layout));
      for (const auto& [tensor, values] : trained(layout, update, frozen_parameters, 2)) {
        EXPECT_EQ(values, (is_frozen(tensor) ? initial : without).at(tensor)) << tensor;
        EXPECT_NE(initial.at(tensor), without.at(tensor)) << tensor;
      }
    }
}

TEST(FrozenParameters, ThatDifferBetweenReplicasAreFound) {
  for (const DType compute : {DType::f32, DType::bf16})
    run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
      StepRank r(mesh, {2, 1, 1, 1}, {.compute = compute, .frozen = {"table"}}, {});
      const FlatParameters& flat = *r.model.flat;
      const Buffer memory = r.device->allocate(ReplicaHashes::bytes(flat));
      ReplicaHashes hashes(flat, mesh, *r.stream, memory.data());
      const Bucket& last = flat.all_buckets().back();
      ASSERT_TRUE(last.frozen);
      auto* bytes = static_cast<std::byte*>(flat.computed(last.range).data);
      if (mesh.rank() == 1) bytes[0] ^= std::byte{1};
      hashes.start();
      hashes.wait();
      for (int b = 0; b < hashes.buckets(); ++b)
        EXPECT_EQ(hashes.differs(b), b + 1 == hashes.buckets()) << b;
    });
}

}  // namespace
}  // namespace trireme
