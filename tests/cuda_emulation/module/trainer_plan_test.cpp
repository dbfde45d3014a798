// What is planned from the numbers of a GPU is what a trainer on that GPU plans and allocates, and
// what it holds once its products are timed.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "kernels/cuda.h"
#include "runtime/comm/nccl.h"
#include "runtime/rank_plan/planned_training.h"
#include "tests/support/mpi_ranks.h"
#include "tests/support/recording_mesh.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

Model llama() {
  TransformerConfig config = preset("tiny");
  config.hidden_size = 32;
  config.seq_length = 16;
  config.position = PositionKind::rotary;
  return Model([=](Graph& g) { return build_transformer_loss(g, config, 2); });
}

Options options_of(const MeshShape& shape, bool bf16) {
  Options options;
  options.tensor_size = shape.size(Axis::tensor);
  options.pipeline_size = shape.size(Axis::pipeline);
  options.micro_batch_size = 2;
  options.global_batch_size = 16;
  options.bf16 = bf16;
  options.use_distributed_optimizer = bf16;
  options.learning_rate.decay_iters = 5;
  options.dump_plan = true;
  return options;
}

CudaOptions gpu_of_rank(const std::string& gemm_cache = "") {
  return {.index = mpi_session().node_rank(),
          .module = TRIREME_EMULATED_MODULE,
          .gemm_cache = gemm_cache};
}

DeviceTraits numbers_of_the_gpu() {
  const DeviceTraits open = open_cuda(gpu_of_rank())->traits();
  return gpu_traits(open.capability, open.multiprocessors, open.shared_bytes);
}

void expect_exact(const MeshShape& shape, bool bf16) {
  const Options options = options_of(shape, bf16);
  const TrainingSpec spec = training_spec(options, shape);
  const DeviceTraits numbers = numbers_of_the_gpu();
  std::vector<Index> planned;
  std::string described;
  for (int rank = 0; rank < shape.size(); ++rank) {
    const PlannedTraining plan(llama(), spec, rank, numbers);
    planned.push_back(plan.memory_need().arena());
    if (plan.coordinate(Role::layers) == 0) described += plan.describe() + '\n';
  }
  const auto gpu = open_cuda(gpu_of_rank());
  const auto host = mpi_session().make_mesh(shape);
  const auto cpu = open_cpu();
  const auto ranks = open_nccl_mesh(*host, *gpu, {.module = TRIREME_EMULATED_MODULE});
  RecordingMesh mesh(*ranks);
  const auto stream = gpu->make_stream();
  const auto host_stream = cpu->make_stream();
  const Log log(mesh.rank(), LogLevel::info);
  testing::internal::CaptureStdout();
  {
    Context context(options, mesh, *stream, Host{*host, *host_stream}, log);
    const Trainer trainer(context, llama());
  }
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(mesh.allocated, (std::vector<Index>{planned[static_cast<std::size_t>(mesh.rank())]}));
  if (mesh.rank() == 0) {
    EXPECT_THAT(printed, testing::HasSubstr(described));
  }
}

TEST(PlannedMemoryOfGpus, IsWhatEveryRankOfALayoutAllocates) {
  const int size = mpi_session().size();
  std::vector<MeshShape> shapes = {MeshShape(size, 1, 1), MeshShape(1, 1, size)};
  if (size <= 2) shapes.emplace_back(1, size, 1);
  if (size == 4) shapes.emplace_back(2, 2, 1), shapes.emplace_back(1, 2, 2);
  for (const MeshShape& shape : shapes)
    for (const bool bf16 : {false, true}) expect_exact(shape, bf16);
}

// On values in the memory of parameters. Their padding is written by nothing later.
TEST(TimedProducts, LeaveZerosInTheMemoryOfParameters) {
  const ScratchDirectory cache;
  const MeshShape shape(1, 1, mpi_session().size());
  Options options = options_of(shape, false);
  options.dump_plan = false;
  options.gemm_cache = cache / "choices";
  const auto gpu = open_cuda(gpu_of_rank(options.gemm_cache));
  const auto host = mpi_session().make_mesh(shape);
  const auto cpu = open_cpu();
  const auto ranks = open_nccl_mesh(*host, *gpu, {.module = TRIREME_EMULATED_MODULE});
  RecordingMesh mesh(*ranks);
  const auto stream = gpu->make_stream();
  const auto host_stream = cpu->make_stream();
  const Log log(mesh.rank(), LogLevel::quiet);
  Context context(options, mesh, *stream, Host{*host, *host_stream}, log);
  const Trainer trainer(context, llama());
  stream->synchronize();
  EXPECT_FALSE(std::filesystem::is_empty(options.gemm_cache)) << "nothing was timed";
  const PlannedTraining plan(llama(), training_spec(options, shape), mesh.rank(), gpu->traits());
  ASSERT_EQ(mesh.memory.size(), 1u);
  EXPECT_TRUE(std::all_of(mesh.memory[0], mesh.memory[0] + plan.memory_need().parameters,
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

}  // namespace
}  // namespace trireme
