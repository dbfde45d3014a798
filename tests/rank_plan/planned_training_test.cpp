// Any process plans any rank of any layout, without ranks, memory and the devices of the ranks.
#include "runtime/rank_plan/planned_training.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"
#include "trireme/nn/nn.h"

#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model model_of(const TransformerConfig& config, const TrainingSpec& spec) {
  return [config, micro_batch = spec.micro_batch_size](Graph& g) {
    return build_transformer_loss(g, config, micro_batch);
  };
}

/// Elements of logical tensors that this rank owns, of those at data coordinate 0.
Index owned_elements(const PlannedTraining& plan) {
  if (plan.coordinate(Role::batch) != 0) return 0;
  Index sum = 0;
  for (const FlatExtent& extent : plan.flat.parameter_extents())
    if (extent.owned)
      for (const Box& box : extent.extent.boxes) sum += box.count();
  return sum;
}

/// Calls f(plan) for every rank.
template <class F>
void for_each_rank(const TransformerConfig& config, const TrainingSpec& spec, F&& f,
                   const DeviceTraits& device = cpu_traits()) {
  for (int rank = 0; rank < spec.mesh.size(); ++rank)
    f(PlannedTraining(model_of(config, spec), spec, rank, device));
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
    const int stage = plan.coordinate(Role::stage);
    EXPECT_EQ(plan.train.program().stage, stage);
    EXPECT_EQ(plan.train.model().chunks.front().stage(), stage);
    EXPECT_EQ(plan.train_inputs.first_row, 8 * plan.coordinate(Role::batch));
    EXPECT_EQ(plan.train_inputs.micro_batches, 4);
    EXPECT_EQ(plan.evaluate.model().chunks.front().parameters().size(),
              plan.train.model().chunks.front().parameters().size());
    EXPECT_FALSE(plan.generate.has_value());
  });
}

TEST(PlannedTraining, ADistributedOptimizerSharesTheStateOverTheDataAxis) {
  TrainingSpec spec = small_spec(MeshShape(4, 1, 1));
  const auto need = [&] {
    return PlannedTraining(model_of(small_gpt2(), spec), spec, 1, cpu_traits()).memory_need();
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
  try {
    const PlannedTraining plan(model_of(small_gpt2(), spec), other, 0, cpu_traits());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("input 'tokens' has shape (2, 16)"));
    EXPECT_THAT(error.what(), HasSubstr("--micro-batch-size 4"));
  }
}

/// A block for each letter: l has a product, a an addition, - has no op.
Value letters(Graph& g, const std::string& blocks) {
  Value x = g.input("x", {2, 4});
  for (std::size_t b = 0; b < blocks.size(); ++b)
    x = g.block("block", static_cast<int>(b), [&] {
      return blocks[b] == 'l' ? linear(x, "up", 4) : blocks[b] == 'a' ? x + x : x;
    });
  return x;
}

TEST(PlannedTraining, EndsForwardOnlyModelsOnTheLastStageWhereBlocksHaveNoOps) {
  const auto stages = [&](const std::string& trained, const std::string& asked) {
    Model model([&](Graph& g) { return squared_error(letters(g, trained), g.input("y", {2, 4})); });
    model.logits = [&](Graph& g) { return letters(g, asked); };
    const PlannedTraining plan(model, small_spec(MeshShape(1, 2, 1)), 0, cpu_traits());
    return plan.generate->model().cut.stage_of_node;
  };
  EXPECT_THAT(stages("lll", "lll"), ElementsAre(0, 0, 1));
  EXPECT_THAT(stages("lll", "l--"), ElementsAre(0, 1)) << "a copy";
  EXPECT_THAT(stages("ll-", "lla"), ElementsAre(0, 1, 1));
}

TEST(PlannedTraining, RefusesADeviceThatCannotExist) {
  const TrainingSpec spec = small_spec(MeshShape(1, 1, 1));
  const auto refusal = [&](const DeviceTraits& device) {
    return message_of([&] { PlannedTraining(model_of(small_gpt2(), spec), spec, 0, device); });
  };
  EXPECT_EQ(refusal({.threads = 0}), "a CPU device has at least one thread, got 0");
  EXPECT_EQ(
      refusal({.instruction_set = InstructionSet::best}),
      "DeviceTraits::instruction_set names one instruction set, not 'best': use cpu_traits()");
  EXPECT_THAT(refusal({.kind = DeviceKind::cuda}), HasSubstr("compute capability such as 90"));
  EXPECT_THAT(refusal({.kind = DeviceKind::cuda, .capability = 90, .shared_bytes = 232448}),
              HasSubstr("at least one multiprocessor, got 0"));
  EXPECT_EQ(refusal({.threads = 2}), "");
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
  const auto add = [&](const PlannedTraining& plan) {
    elements += owned_elements(plan);
    const MemoryNeed need = plan.memory_need();
    const int stage = plan.coordinate(Role::stage);
    // Lists of ranges differ a little between ranks.
    const Index known = arena_of_stage.emplace(stage, need.arena()).first->second;
    EXPECT_NEAR(static_cast<double>(need.arena()), static_cast<double>(known), 1 << 20);
    EXPECT_GT(need.arena(), Index{1} << 30);
    EXPECT_LT(need.total(), Index{80} << 30);
  };
  for_each_rank(config, spec, add, gpu_traits("H100-SXM"));
  EXPECT_EQ(elements, config.parameter_count());
  EXPECT_GT(arena_of_stage.at(0), arena_of_stage.at(2)) << "1F1B keeps more on earlier stages";
}

/// Of this process: the libraries that it has loaded.
std::string loaded_libraries() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

Index peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Index{usage.ru_maxrss} << 10;
}

TEST(PlannedTraining, NeedsNoGpuToPlanForOne) {
  const TransformerConfig config = preset("gpt2-124m");
  TrainingSpec spec;
  spec.micro_batch_size = 8;
  spec.global_batch_size = 64;
  spec.compute = DType::bf16;
  const Index before = peak_memory();
  const PlannedTraining plan(model_of(config, spec), spec, 0, gpu_traits("H100-SXM"));
  const MemoryNeed need = plan.memory_need();
  EXPECT_LT(peak_memory() - before, need.arena() / 50);
  EXPECT_THAT(loaded_libraries(), testing::Not(HasSubstr("cuda")));

  const Index elements = config.parameter_count();
  EXPECT_NEAR(double(need.parameters), double(6 * elements), 1e6) << "f32 masters and a bf16 copy";
  EXPECT_NEAR(double(need.gradients), double(4 * elements), 1e6);
  EXPECT_NEAR(double(need.optimizer), double(8 * elements), 1e6);
  EXPECT_GT(need.activations, Index{3} << 30);
  EXPECT_EQ(need.products, Index{34} << 20) << "cuBLASLt's workspace, and CUDA's least block";
  EXPECT_THAT(plan.describe(), HasSubstr("block.11"));
  EXPECT_EQ(PlannedTraining(model_of(config, spec), spec, 0, gpu_traits("H200")).describe(),
            plan.describe());
}

TEST(PlannedTraining, HoldsATableOfRotationsThatNoPlanComputes) {
  TransformerConfig config = preset("llama-8b");
  TrainingSpec spec;
  spec.mesh = MeshShape(1, 1, 8);
  const PlannedTraining plan(model_of(config, spec), spec, 0, gpu_traits("H200"));
  const Index table = config.seq_length * config.head_dim() * Index{sizeof(float)};
  EXPECT_EQ(plan.memory_need().constants, 2 * table) << "training, evaluation";
}

TEST(PlannedTraining, SaysWhyADeviceCannotRunTheModel) {
  TransformerConfig config = small_gpt2();
  config.num_attention_heads = 1;
  config.hidden_size = 256;
  const TrainingSpec spec = small_spec(MeshShape(1, 1, 1));
  EXPECT_THAT(
      message_of([&] { PlannedTraining(model_of(config, spec), spec, 0, gpu_traits("H100-SXM")); }),
      HasSubstr("attention on GPUs takes heads of up to 128 elements, got head_dim 256"));
}

}  // namespace
}  // namespace trireme
