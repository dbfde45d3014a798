// Flat parameters of models that compute in bf16: an f32 master, and its rounded copy at the same
// offsets.
#include <gtest/gtest.h>

#include "tests/optim/mesh_steps.h"

namespace trireme {
namespace {

using namespace testing;

/// The compute copy has the masters of this rank, rounded.
bool is_rounded(const FlatParameters& flat) {
  for (const Bucket& bucket : flat.buckets()) {
    const Bf16* copy = flat.compute_data() + flat.updated(bucket).begin;
    const float* master = flat.master_data() + flat.master_begin(bucket);
    for (Index i = 0; i < flat.updated(bucket).count; ++i)
      if (copy[i].bits != to_bf16(master[i]).bits) return false;
  }
  return true;
}

std::vector<float> compute_copy(const FlatParameters& flat) {
  std::vector<float> all;
  for (Index i = 0; i < flat.count(); ++i) all.push_back(to_float(flat.compute_data()[i]));
  return all;
}

TEST(MixedPrecision, TheComputeCopyHasTheLayoutOfGradientsAndMastersThatOfTheState) {
  for (const Layout& layout : mixed_layouts()) {
    const MeshShape shape = layout.shape();
    for (int rank = 0; rank < shape.size(); ++rank) {
      TinyRank wide(shape, rank, {.chunks = layout.chunks, .update = Update::sharded});
      TinyRank half(shape, rank,
                    {.chunks = layout.chunks, .update = Update::sharded, .compute = DType::bf16});
      EXPECT_EQ(wide.layout->compute_bytes(), 0);
      EXPECT_EQ(half.layout->count(), wide.layout->count());
      EXPECT_EQ(half.layout->state_count(), wide.layout->state_count());
      EXPECT_EQ(half.layout->gradient_bytes(), 4 * half.layout->count());
      EXPECT_EQ(half.layout->master_count(), half.layout->count() / layout.data);
      EXPECT_EQ(half.layout->master_count(), half.layout->state_count());
      EXPECT_EQ(wide.layout->master_count(), wide.layout->count());
      EXPECT_EQ(half.layout->parameter_bytes(),
                2 * half.layout->count() + 4 * half.layout->state_count());
      TinyRank replicated(shape, rank, {.chunks = layout.chunks, .compute = DType::bf16});
      EXPECT_EQ(replicated.layout->parameter_bytes(), 6 * half.layout->count());
      ASSERT_EQ(half.layout->buckets().size(), wide.layout->buckets().size());
      for (std::size_t b = 0; b < half.layout->buckets().size(); ++b)
        EXPECT_EQ(half.layout->buckets()[b].range, wide.layout->buckets()[b].range);
    }
  }
}

TEST(MixedPrecision, OpsReadTheCopyAndAddToF32) {
  const auto device = open_cpu();
  TinyRank r(MeshShape(1, 1, 1), 0, {.compute = DType::bf16});
  r.bind(*device);
  const auto& order = r.plans[0]->parameters();
  const std::vector<Tensor> parameters = r.flat->parameter_tensors(*r.plans[0]),
                            gradients = r.flat->gradient_tensors(*r.plans[0]);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& all = r.layout->parameters();
    const auto p = std::find_if(all.begin(), all.end(),
                                [&](const FlatParameter& f) { return f.id == order[i]; });
    EXPECT_EQ(parameters[i].as<Bf16>(), r.flat->compute_data() + p->range.begin);
    EXPECT_EQ(gradients[i].as<float>(), r.flat->gradient_data() + p->range.begin);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(r.flat->compute_data()) % 64, 0u);
  TinyRank wide(MeshShape(1, 1, 1), 0, {});
  EXPECT_THROW(r.flat->parameter_tensors(*wide.plans[0]), Error);  // a plan of another type
}

TEST(MixedPrecision, InitialValuesAreThoseOfF32AndTheCopyIsRounded) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  TinyRank wide(MeshShape(1, 1, 1), 0, {}), half(MeshShape(1, 1, 1), 0, {.compute = DType::bf16});
  for (TinyRank* r : {&wide, &half}) {
    r->bind(*device);
    r->flat->initialise(7, *stream, stream->pool());
  }
  for (Index i = 0; i < half.layout->count(); ++i)
    ASSERT_EQ(half.flat->master_data()[i], wide.flat->master_data()[i]) << i;
  EXPECT_TRUE(is_rounded(*half.flat));
  half.flat->master_data()[3] = 1.2345f;
  EXPECT_FALSE(is_rounded(*half.flat));
  half.flat->refresh_compute_copy(*stream);
  EXPECT_TRUE(is_rounded(*half.flat));
}

TEST(MixedPrecision, ARankThatUpdatesSlicesDrawsTheirMastersAndTheWholeCopy) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  for (const Layout& layout : mixed_layouts()) {
    SCOPED_TRACE(describe(layout));
    const MeshShape shape = layout.shape();
    Gathered masters, slices;
    for (int rank = 0; rank < shape.size(); ++rank) {
      TinyRank wide(shape, rank, {.chunks = layout.chunks}),
          half(shape, rank,
               {.chunks = layout.chunks, .update = Update::sharded, .compute = DType::bf16});
      for (TinyRank* r : {&wide, &half}) {
        r->bind(*device);
        r->flat->initialise(7, *stream, stream->pool());
      }
      for (Index i = 0; i < half.layout->count(); ++i)
        ASSERT_EQ(half.flat->compute_data()[i].bits, to_bf16(wide.flat->master_data()[i]).bits)
            << i;
      EXPECT_TRUE(is_rounded(*half.flat));
      masters.add(wide.layout->parameter_extents(), wide.flat->master_data());
      slices.add(half.layout->slice_extents(FlatBuffer::masters), half.flat->master_data());
    }
    EXPECT_EQ(masters.tensors(), slices.tensors());
  }
}

// After each step: copies are the same on all ranks, sharded or not, and those of what a rank
// updates are its masters rounded.
TEST(MixedPrecision, UpdatesWriteTheCopyAndShardedOnesGatherIt) {
  using Kind = OptimizerOptions::Kind;
  for (const Kind kind : {Kind::adamw, Kind::sgd})
    for (const Layout& layout : mixed_layouts()) {
      SCOPED_TRACE(describe(layout));
      std::map<std::string, std::vector<float>> copies[2], masters[2];
      for (const Update update : {Update::replicated, Update::sharded}) {
        Gathered copy, master;
        run_on_threads(layout.shape(), [&](Mesh& mesh) {
          StepRank r(mesh, layout,
                     {.chunks = layout.chunks, .update = update, .compute = DType::bf16},
                     {.kind = kind});
          const FlatParameters& flat = *r.model.flat;
          for (Index step = 0; step < 3; ++step) r.step(step, 0.01);
          EXPECT_TRUE(is_rounded(flat));
          const std::vector<float> all = compute_copy(flat);
          copy.add(flat.parameter_extents(), all.data());
          master.add(flat.slice_extents(FlatBuffer::masters), flat.master_data());
        });
        EXPECT_EQ(copy.disagreements() + master.disagreements(), 0);
        copies[update == Update::sharded] = copy.tensors();
        masters[update == Update::sharded] = master.tensors();
      }
      EXPECT_EQ(copies[0], copies[1]);
      EXPECT_EQ(masters[0], masters[1]);
    }
}

}  // namespace
}  // namespace trireme
