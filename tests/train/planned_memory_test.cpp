// What one process plans for each rank is what the ranks of a job allocate, byte for byte.
#include <cstdlib>

#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "runtime/plan/planned_training.h"

namespace trireme {
namespace {

/// Passes all on, and keeps what is allocated.
class RecordingMesh final : public Mesh {
 public:
  explicit RecordingMesh(Mesh& mesh) : mesh_(mesh) {}
  const MeshShape& shape() const override { return mesh_.shape(); }
  int rank() const override { return mesh_.rank(); }
  Communicator& axis(Axis axis) override { return mesh_.axis(axis); }
  Communicator& world() override { return mesh_.world(); }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    return mesh_.split(color, name);
  }
  Buffer allocate(Index bytes) override {
    allocated.push_back(bytes);
    return mesh_.allocate(bytes);
  }
  std::string memory_description() const override { return mesh_.memory_description(); }
  [[noreturn]] void abort(int /*code*/) override { std::abort(); }

  std::vector<Index> allocated;

 private:
  Mesh& mesh_;
};

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
  options.chunks = schedule == ScheduleKind::interleaved ? 2 : 1;
  options.learning_rate.decay_iters = 5;
  return options;
}

void expect_exact(const Options& options) {
  const MeshShape shape(2, 2, 2);
  const TrainingSpec spec = training_spec(options, shape);
  std::vector<Index> planned;
  {
    const std::unique_ptr<Device> device = open_cpu();
    for (int rank = 0; rank < shape.size(); ++rank)
      planned.push_back(PlannedTraining(gpt2(), spec, rank, *device).memory_need().arena());
  }
  run_on_threads(shape, [&](Mesh& ranks) {
    RecordingMesh mesh(ranks);
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Context context(options, mesh, *stream, log);
    const Trainer trainer(context, gpt2());
    EXPECT_EQ(mesh.allocated, (std::vector<Index>{planned[static_cast<std::size_t>(mesh.rank())]}));
  });
}

TEST(PlannedMemory, IsWhatEveryRankOfALayoutAllocates) {
  for (const bool bf16 : {false, true})
    for (const bool sharded : {false, true})
      for (const ScheduleKind schedule : all_schedules())
        expect_exact(options_of(bf16, sharded, schedule));
}

}  // namespace
}  // namespace trireme
