// Models of Hugging Face on emulated GPUs: weights pass through the host to the devices, and parts
// of them stay as they came.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/inspect/inspect.h"
#include "tests/interop/toy_model.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

const std::string config =
    R"({"model_type":"llama","vocab_size":256,"hidden_size":32,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":64,)"
    R"("max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0})";

class GpuHuggingFace : public testing::Test {
 protected:
  GpuHuggingFace() { write_model(from_, config, toy_model(config, "BF16"), 2); }

  /// Trains two steps and saves the last one.
  TrainingRun train(const std::string& name, const Layout& layout, const std::string& options,
                    const std::string& before = "") {
    const std::string prefix = jobs_ / name;
    jobs_.succeed(before + jobs_.training(layout, str("--load-hf ", from_.path(), " --metrics ",
                                                      prefix, ".jsonl --dump-tensors ", prefix,
                                                      " --save ", prefix, " ", options)));
    return read_training_run(prefix);
  }
  std::string sum_of(const std::string& name) const {
    const OpenedStep step = open_step(jobs_ / name + "/step-000002");
    const std::string* sum = step.manifest.identity_of("origin/values xxh3");
    return sum == nullptr ? "none" : *sum;
  }

  ScratchDirectory from_;
  CheckpointJobs jobs_{"--seq-length 16 --train-iters 2 --optimizer sgd --lr 0.1"};
  const Layout one_{"one rank", 1, "--micro-batch-size 4"};
  const Layout four_{"tensor 2 x pipeline 2", 4, "--tp 2 --pp 2 --micro-batch-size 2"};
};

TEST_F(GpuHuggingFace, BeginsAsOnTheCpu) {
  const TrainingRun cpu = train("cpu", one_, "--device cpu"),
                    gpu = train("gpu", four_, "--device cuda", on_emulated_gpus());
  const Difference difference = compare(cpu, gpu);
  EXPECT_TRUE(within_limits(difference)) << describe(difference);
  EXPECT_EQ(sum_of("cpu"), sum_of("gpu"));
  EXPECT_EQ(sum_of("gpu").size(), 16u);
}

TEST_F(GpuHuggingFace, FrozenPartsStayAsTheyCame) {
  const std::string frozen = "--device cuda --bf16 --freeze embedding,block.0";
  const TrainingRun run = train("frozen", four_, frozen, on_emulated_gpus());
  const safetensors::Directory files = safetensors::open_directory(from_.path());
  EXPECT_EQ(run.gradients.tensors.count("block.0.mlp.up.weight"), 0u);
  EXPECT_EQ(run.gradients.tensors.count("block.1.mlp.up.weight"), 1u);
  jobs_.succeed(CheckpointJobs::trireme("hf export " + (jobs_ / "frozen") + " --dtype bf16 " +
                                        "--output " + (jobs_ / "out")));
  const safetensors::Directory out = safetensors::open_directory(jobs_ / "out");
  const auto bytes = [](const safetensors::Directory& directory, const std::string& name) {
    const safetensors::LocatedTensor& tensor = *directory.find(name);
    return read_text(directory.file_path(tensor))
        .substr(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.bytes));
  };
  for (const safetensors::LocatedTensor& tensor : files.tensors) {
    const bool stays = tensor.name.starts_with("model.embed_tokens.") ||
                       tensor.name.starts_with("model.layers.0.");
    const bool same = bytes(files, tensor.name) == bytes(out, tensor.name);
    EXPECT_TRUE(same || !stays) << tensor.name;
    EXPECT_TRUE(!same || tensor.name != "model.layers.1.mlp.up_proj.weight");
  }
}

}  // namespace
}  // namespace trireme::test
