// What one process plans for each rank is what the ranks of a job plan and allocate, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "runtime/rank_plan/planned_training.h"
#include "tests/support/recording_mesh.h"

namespace trireme {
namespace {

/// Dropout in training, none in evaluation, and generation: three passes that share memory.
Model gpt2() {
  TransformerConfig config = preset("tiny");
  config.hidden_size = 32;
  config.seq_length = 16;
  config.hidden_dropout = 0.1f;
  TransformerConfig quiet = config;
  quiet.hidden_dropout = 0;
  Model model([=](Graph& g) { return build_transformer_loss(g, config, 2); });
  model.evaluation = [=](Graph& g) { return build_transformer_loss(g, quiet, 2); };
  model.logits = [=](Graph& g) { return build_transformer_logits(g, quiet, 1); };
  return model;
}

Options options_of(bool bf16, bool sharded, ScheduleKind schedule) {
  Options options;
  options.tensor_size = options.pipeline_size = 2;
  options.micro_batch_size = 2;
  options.global_batch_size = 16;
  options.bucket_size = 2000;
  options.bf16 = bf16;
  options.use_distributed_optimizer = sharded;
  options.schedule = schedule;
  const bool two = schedule == ScheduleKind::interleaved || schedule == ScheduleKind::zero_bubble_v;
  options.chunks = two ? 2 : 1;
  options.learning_rate.decay_iters = 5;
  options.dump_plan = true;
  return options;
}

void expect_exact(const Options& options) {
  const MeshShape shape(2, 2, 2);
  const TrainingSpec spec = training_spec(options, shape);
  std::vector<Index> planned;
  std::string described;
  for (int rank = 0; rank < shape.size(); ++rank) {
    const PlannedTraining plan(gpt2(), spec, rank, cpu_traits());
    planned.push_back(plan.memory_need().arena());
    if (plan.coordinate(Role::batch) == 0 && plan.coordinate(Role::tensor) == 0)
      described += plan.describe() + '\n';
  }
  testing::internal::CaptureStdout();
  run_on_threads(shape, [&](Mesh& ranks) {
    RecordingMesh mesh(ranks);
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::info);
    Context context(options, mesh, *stream, log);
    const Trainer trainer(context, gpt2());
    EXPECT_EQ(mesh.allocated, (std::vector<Index>{planned[static_cast<std::size_t>(mesh.rank())]}));
  });
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr(described));
}

TEST(PlannedMemory, IsWhatEveryRankOfALayoutAllocates) {
  for (const bool bf16 : {false, true})
    for (const bool sharded : {false, true})
      for (const ScheduleKind schedule : all_schedules())
        expect_exact(options_of(bf16, sharded, schedule));
}

TEST(PlannedMemory, OfFrozenPartsIsExactToo) {
  for (const bool bf16 : {false, true})
    for (const bool sharded : {false, true}) {
      Options options = options_of(bf16, sharded, ScheduleKind::one_f_one_b);
      options.freeze = {"embedding", "position", "block.0-1", "block.2.attention"};
      expect_exact(options);
    }
}

TEST(PlannedMemory, OfUnequalSlicesIsExactToo) {
  for (const bool bf16 : {false, true})
    for (const DataShares& shares : {DataShares{3, 1}, {0, 1}}) {
      Options options = options_of(bf16, true, ScheduleKind::one_f_one_b);
      options.optimizer_shares = shares;
      options.verify_step = options.check_replicas = 1;
      expect_exact(options);
    }
}

}  // namespace
}  // namespace trireme
