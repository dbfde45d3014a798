// Any process plans any rank of any layout, without ranks and without memory.
#include "runtime/plan/planned_training.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"

namespace trireme {
namespace {

using testing::HasSubstr;

Model model_of(const TransformerConfig& config, const TrainingSpec& spec) {
  return [config, micro_batch = spec.micro_batch_size](Graph& g) {
    return build_transformer_loss(g, config, micro_batch);
  };
}

/// Elements of logical tensors that this rank owns, of those at data coordinate 0.
Index owned_elements(const PlannedTraining& plan) {
  if (plan.coordinate(Axis::data) != 0) return 0;
  Index sum = 0;
  for (const FlatExtent& extent : plan.flat.parameter_extents())
    if (extent.owned)
      for (const Box& box : extent.extent.boxes) sum += box.count();
  return sum;
}

/// Calls f(plan) for every rank.
template <class F>
void for_each_rank(const TransformerConfig& config, const TrainingSpec& spec, F&& f) {
  const std::unique_ptr<Device> device = open_cpu();
  for (int rank = 0; rank < spec.mesh.size(); ++rank)
    f(PlannedTraining(model_of(config, spec), spec, rank, *device));
}

TransformerConfig small_gpt2() {
  TransformerConfig config = preset("tiny");
  config.hidden_size = 32;
  config.seq_length = 16;
  return config;
}

TrainingSpec small_spec(const MeshShape& mesh) {
  TrainingSpec spec;
  spec.mesh = mesh;
  spec.micro_batch_size = 2;
  spec.global_batch_size = 16;
  spec.bucket_size = 2000;
  return spec;
}

TEST(PlannedTraining, TheRanksOfALayoutHoldEveryParameterOnce) {
  for (const MeshShape& mesh : {MeshShape(1, 1, 1), MeshShape(2, 2, 2), MeshShape(1, 4, 2)}) {
    Index elements = 0;
    for_each_rank(small_gpt2(), small_spec(mesh),
                  [&](const PlannedTraining& plan) { elements += owned_elements(plan); });
    EXPECT_EQ(elements, small_gpt2().parameter_count()) << mesh.describe();
  }
}

TEST(PlannedTraining, HasTheProgramAndTheBatchOfItsRank) {
  for_each_rank(small_gpt2(), small_spec(MeshShape(2, 2, 2)), [](const PlannedTraining& plan) {
    const int stage = plan.coordinate(Axis::pipeline);
    EXPECT_EQ(plan.train.program().stage, stage);
    EXPECT_EQ(plan.train.model().chunks.front().stage(), stage);
    EXPECT_EQ(plan.train_inputs.first_row, 8 * plan.coordinate(Axis::data));
    EXPECT_EQ(plan.train_inputs.micro_batches, 4);
    EXPECT_EQ(plan.evaluate.model().chunks.front().parameters().size(),
              plan.train.model().chunks.front().parameters().size());
    EXPECT_FALSE(plan.generate.has_value());
  });
}

TEST(PlannedTraining, ADistributedOptimizerSharesTheStateOverTheDataAxis) {
  TrainingSpec spec = small_spec(MeshShape(4, 1, 1));
  const std::unique_ptr<Device> device = open_cpu();
  const auto need = [&] {
    return PlannedTraining(model_of(small_gpt2(), spec), spec, 1, *device).memory_need();
  };
  const MemoryNeed whole = need();
  spec.update = Update::sharded;
  const MemoryNeed part = need();
  EXPECT_EQ(part.activations, whole.activations);
  EXPECT_LT(part.optimizer, whole.optimizer / 3);
}

TEST(PlannedTraining, SaysWhichInputIsNotAMicroBatch) {
  const TrainingSpec spec = small_spec(MeshShape(1, 1, 1));
  TrainingSpec other = spec;
  other.micro_batch_size = 4;
  const std::unique_ptr<Device> device = open_cpu();
  try {
    const PlannedTraining plan(model_of(small_gpt2(), spec), other, 0, *device);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("input 'tokens' has shape (2, 16)"));
    EXPECT_THAT(error.what(), HasSubstr("TrainingSpec::micro_batch_size 4"));
  }
}

TEST(PlannedTraining, TakesNoMemoryForAModelOfBillionsOnManyRanks) {
  TransformerConfig config = preset("llama-8b");
  config.recompute = RecomputeGranularity::selective;
  TrainingSpec spec;
  spec.mesh = MeshShape(2, 4, 8);
  spec.global_batch_size = 64;
  spec.compute = DType::bf16;
  spec.update = Update::sharded;
  Index elements = 0;
  std::map<int, Index> arena_of_stage;
  for_each_rank(config, spec, [&](const PlannedTraining& plan) {
    elements += owned_elements(plan);
    const MemoryNeed need = plan.memory_need();
    const int stage = plan.coordinate(Axis::pipeline);
    // Lists of ranges differ a little between ranks.
    const Index known = arena_of_stage.emplace(stage, need.arena()).first->second;
    EXPECT_NEAR(static_cast<double>(need.arena()), static_cast<double>(known), 1 << 20);
    EXPECT_GT(need.arena(), Index{1} << 30);
    EXPECT_LT(need.total(), Index{80} << 30);
  });
  EXPECT_EQ(elements, config.parameter_count());
  EXPECT_GT(arena_of_stage.at(0), arena_of_stage.at(2)) << "1F1B keeps more on earlier stages";
}

}  // namespace
}  // namespace trireme
