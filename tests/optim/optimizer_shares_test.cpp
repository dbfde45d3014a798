// A sharded update in unequal slices: what each data rank has, and the bits of equal slices.
#include <numeric>

#include <gtest/gtest.h>

#include "runtime/optim/replica_hashes.h"
#include "runtime/optim/step_hashes.h"
#include "tests/optim/mesh_steps.h"
#include "tests/optim/wide_model.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using namespace testing;

struct Unequal {
  Layout layout;
  std::vector<Index> shares;
};
/// With ranks that have nothing, and of those one that is the first, or the last.
std::vector<Unequal> unequal_slices() {
  return {{{2, 1, 1, 1}, {3, 1}},    {{3, 1, 1, 1}, {2, 1, 1}},     {{3, 2, 1, 2}, {1, 0, 2}},
          {{2, 2, 2, 1}, {0, 1}},    {{2, 2, 2, 2}, {5, 2}},        {{4, 1, 2, 2}, {1, 7, 1, 0}},
          {{2, 2, 1, 1}, {1, 1000}}, {{2, 4, 1, 1}, {81559, 24564}}};
}

TinyOptions tiny(const Unequal& cut, DType compute = DType::f32) {
  return {.chunks = cut.layout.chunks,
          .update = Update::sharded,
          .compute = compute,
          .shares = cut.shares};
}

template <class F>
void for_each_cut(F&& f) {
  for (const Unequal& cut : unequal_slices())
    for (const DType compute : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(describe(cut.layout));
      f(cut, tiny(cut, compute));
    }
}

TEST(OptimizerShares, CutEachBucketIntoSlicesOfWholeLines) {
  for_each_cut([](const Unequal& cut, const TinyOptions& options) {
    const MeshShape shape = cut.layout.shape();
    const Index sum = std::accumulate(cut.shares.begin(), cut.shares.end(), Index{0});
    for (int rank = 0; rank < shape.size(); ++rank) {
      const TinyRank r(shape, rank, options);
      const auto mine = static_cast<std::size_t>(shape.coordinate(rank, Axis::data));
      Index end = 0, state = 0;
      for (const Bucket& bucket : r.layout->buckets()) {
        EXPECT_EQ(bucket.range.begin, end);
        ASSERT_EQ(bucket.slices.size(), cut.shares.size());
        Index before = bucket.range.begin;
        for (std::size_t i = 0; i < cut.shares.size(); ++i) {
          EXPECT_EQ(bucket.slices[i] % 16, 0);
          // All slices together are at most a line each larger than the parameters.
          EXPECT_GE(bucket.slices[i] * sum,
                    (bucket.range.count - 16 * shape.size(Axis::data)) * cut.shares[i]);
          EXPECT_LE(bucket.slices[i] * sum, bucket.range.count * cut.shares[i] + 16 * sum);
          if (i == mine) {
            EXPECT_EQ(bucket.slice, (FlatRange{before, bucket.slices[i]}));
          }
          before += bucket.slices[i];
        }
        EXPECT_EQ(bucket.range.end(), before);
        EXPECT_EQ(bucket.state_begin, state);
        end = bucket.range.end();
        state += bucket.slice.count;
      }
      EXPECT_EQ(r.layout->state_count(), state);
      EXPECT_EQ(state == 0, cut.shares[mine] == 0);
      EXPECT_EQ(r.layout->parameter_bytes(),
                options.compute == DType::f32 ? 4 * end : 2 * end + 4 * state);
      for (const FlatParameter& parameter : r.layout->parameters())
        EXPECT_LE(parameter.range.end(), r.layout->bucket_with(parameter).range.end());
    }
  });
}

TEST(OptimizerShares, ThatAreEqualCutAsNoneDo) {
  for (const Layout& layout : mixed_layouts()) {
    const std::vector<Index> shares(static_cast<std::size_t>(layout.data), 7);
    for (int rank = 0; rank < layout.shape().size(); ++rank) {
      const TinyRank with(layout.shape(), rank, tiny({layout, shares})),
          none(layout.shape(), rank, tiny({layout, {}}));
      ASSERT_EQ(with.layout->buckets().size(), none.layout->buckets().size());
      for (std::size_t b = 0; b < none.layout->buckets().size(); ++b) {
        EXPECT_EQ(with.layout->buckets()[b].range, none.layout->buckets()[b].range);
        EXPECT_EQ(with.layout->buckets()[b].slice, none.layout->buckets()[b].slice);
        EXPECT_TRUE(none.layout->buckets()[b].slices.empty());
      }
    }
  }
}

TEST(OptimizerShares, AreOneForEachDataRankAndNotAllZero) {
  const auto refusal = [](const std::vector<Index>& shares) {
    return message_of([&] { TinyRank(MeshShape(2, 1, 1), 0, tiny({{2, 1, 1, 1}, shares})); });
  };
  EXPECT_EQ(refusal({1, 2, 3}), "there are 3 shares for the slices of 2 data ranks");
  for (const std::vector<Index>& wrong : {std::vector<Index>{0, 0}, {3, -1}})
    EXPECT_EQ(refusal(wrong),
              "shares for slices have to be 0 or more, and one of them more than 0");
  EXPECT_EQ(refusal({0, 1}), "");
}

/// How often each logical element is in what `extents`(rank) gives, on all ranks.
template <class Extents>
std::map<std::string, std::vector<int>> counted(const MeshShape& shape, const TinyOptions& options,
                                                Extents&& extents) {
  std::map<std::string, std::vector<int>> seen;
  for (int rank = 0; rank < shape.size(); ++rank) {
    const TinyRank r(shape, rank, options);
    for (const FlatExtent& flat : extents(*r.layout)) {
      std::vector<int>& counts = seen[flat.extent.name];
      counts.resize(static_cast<std::size_t>(flat.extent.global.count()));
      for_each_element(flat, [&](Index i, Index) { ++counts[static_cast<std::size_t>(i)]; });
    }
  }
  return seen;
}

TEST(OptimizerShares, WriteEachElementOnce) {
  for_each_cut([](const Unequal& cut, TinyOptions options) {
    for (const auto model : {tiny_model, wide_model})
      for (const FlatBuffer buffer : {FlatBuffer::masters, FlatBuffer::state}) {
        options.model = model;
        const auto seen = counted(cut.layout.shape(), options, [&](const FlatLayout& flat) {
          return flat.written_extents(buffer);
        });
        EXPECT_EQ(seen.size(), model == tiny_model ? 1u + 4 * 8 : 2u + 4 * 2);
        for (const auto& [name, counts] : seen)
          for (const int count : counts) ASSERT_EQ(count, 1) << name;
      }
  });
}

struct Updated {
  Gathered parameters, masters, states;

  bool operator==(const Updated& other) const {
    return parameters.tensors() == other.parameters.tensors() &&
           masters.tensors() == other.masters.tensors() &&
           states.tensors() == other.states.tensors();
  }
};

/// What five steps make, put together from all ranks.
void train_steps(const Layout& layout, const TinyOptions& options, const ThreadTransport& transport,
                 Updated& result) {
  run_on_threads(
      layout.shape(),
      [&](Mesh& mesh) {
        StepRank r(mesh, layout, options, {.clip_norm = 1});
        for (Index step = 0; step < 5; ++step) r.step(step, 0.01);
        const FlatParameters& flat = *r.model.flat;
        std::vector<float> computed;
        for (Index i = 0; i < flat.count(); ++i)
          computed.push_back(flat.has_copy() ? to_float(flat.compute_data()[i])
                                             : flat.master_data()[i]);
        result.parameters.add(flat.parameter_extents(), computed.data());
        result.masters.add(flat.master_extents(), flat.master_data());
        for (const Optimizer::StateTensor& state : r.optimizer->state_tensors())
          result.states.add(flat.state_extents(), state.data, state.name + ".");
      },
      transport);
}

void expect_bits_of_one_rank(const std::vector<Unequal>& cuts, const ThreadTransport& transport,
                             const std::set<std::string>& frozen = {}) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    Updated alone;
    train_steps({1, 1, 1, 1}, {.compute = compute, .frozen = frozen}, {}, alone);
    for (const Unequal& cut : cuts) {
      SCOPED_TRACE(describe(cut.layout));
      TinyOptions options = tiny(cut, compute);
      options.frozen = frozen;
      Updated result;
      train_steps(cut.layout, options, transport, result);
      for (const Gathered* all : {&result.parameters, &result.masters, &result.states})
        EXPECT_EQ(all->disagreements(), 0);
      EXPECT_TRUE(result == alone);
    }
  }
}

// The gradients are small integers, so all sums are exact.
TEST(OptimizerShares, UpdateWithTheBitsOfOneRank) { expect_bits_of_one_rank(unequal_slices(), {}); }
TEST(OptimizerShares, UpdateWithTheBitsOfOneRankOnUnequalNodesWhoseOperationsAreDelayed) {
  const std::vector<Unequal> all = unequal_slices();
  expect_bits_of_one_rank({all[1], all[2], all[5]}, {.hostile_seed = 5, .ranks_per_node = 3});
}
TEST(OptimizerShares, LeaveFrozenPartsAsTheyAre) {
  const std::vector<Unequal> all = unequal_slices();
  expect_bits_of_one_rank({all[2], all[3], all[4]}, {}, {"block.0.norm", "block.2.query"});
}

// A step that is computed twice, and replicas that are compared, where ranks have nothing.
TEST(OptimizerShares, AreHashedAsFarAsARankHasThem) {
  for_each_cut([](const Unequal& cut, const TinyOptions& options) {
    run_on_threads(cut.layout.shape(), [&](Mesh& mesh) {
      StepRank r(mesh, cut.layout, options, {});
      const Buffer step_memory = r.device->allocate(StepHashes::bytes(*r.model.flat)),
                   memory = r.device->allocate(ReplicaHashes::bytes(*r.model.flat));
      StepHashes twice(*r.model.flat, *r.stream, step_memory.data());
      r.begin(0);
      r.backward();
      r.reducer->finish();
      twice.begin(0);
      twice.hash_sums();
      twice.begin(1);
      twice.hash_sums();
      r.set_rate(0.01);
      r.optimizer->start_step([](Optimizer::Part) {}, &twice);
      r.optimizer->finish_step();
      twice.finish();
      using Part = StepHashes::Part;
      for (const Part part : {Part::sums, Part::masters, Part::first, Part::second})
        EXPECT_EQ(twice.difference(part), -1) << static_cast<int>(part);
      ReplicaHashes replicas(*r.model.flat, mesh, *r.stream, memory.data());
      replicas.start();
      replicas.wait();
      EXPECT_FALSE(replicas.any_differs());
    });
  });
}

}  // namespace
}  // namespace trireme
