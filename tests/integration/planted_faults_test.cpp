// The layout comparison can fail: four faults are planted between the trainer and its
// communicators, and each is seen. The ranks are threads of this process, so that a decorated Mesh
// can replace the real one.

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "runtime/optim/flat_parameters.h"
#include "tests/support/faulty_mesh.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

// Tokens that depend on the sample and position only.
class Tokens final : public DataSource {
 public:
  explicit Tokens(Index vocabulary) : vocabulary_(vocabulary) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    Index targets = 0;
    for (std::size_t input = 0; input < out.size(); ++input) {
      if (out[input].data == nullptr) continue;
      std::int32_t* row = out[input].as<std::int32_t>();
      for (Index i = 0; i < out[input].count(); ++i) {
        const Index position = i + static_cast<Index>(input);
        row[i] = static_cast<std::int32_t>(
            (sample * sample * 31 + position * (sample + 3) + position / 5) % vocabulary_);
      }
      targets = out[input].count();
    }
    return targets;
  }

 private:
  Index vocabulary_;
};

TransformerConfig small_model() {
  TransformerConfig config = preset("tiny");
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_attention_heads = 4;
  config.seq_length = 16;
  config.vocab_size = 61;
  return config;
}

constexpr Index micro_batch = 2;

Options options_for(const MeshShape& shape, const std::string& prefix) {
  Options options;
  options.tensor_size = shape.size(Axis::tensor);
  options.pipeline_size = shape.size(Axis::pipeline);
  options.micro_batch_size = micro_batch;
  options.global_batch_size = 8;
  options.train_iters = 10;
  options.learning_rate.lr = 3e-3;
  options.learning_rate.decay_iters = options.train_iters;
  options.bucket_size =
      Index{1} << 30;  // one bucket: a parameter is found by its place in the flat order
  options.metrics = prefix + ".jsonl";
  options.dump_tensors = prefix;
  options.log_level = LogLevel::quiet;
  return options;
}

class PlantedFaults : public ::testing::Test {
 protected:
  TrainingRun train(const MeshShape& shape, const Faults& faults) {
    const std::string prefix = folder_ / std::to_string(runs_++);
    const Options options = options_for(shape, prefix);
    run_on_threads(shape, [&](Mesh& real) {
      FaultyMesh mesh(real, faults);
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      Context context(options, mesh, *stream, log);
      Trainer trainer(context, Model([](Graph& g) {
                        return build_transformer_loss(g, small_model(), micro_batch);
                      }));
      Tokens tokens(small_model().vocab_size);
      trainer.fit(tokens);
    });
    return read_training_run(prefix);
  }

  Difference difference(const MeshShape& shape, const Faults& faults) {
    const Difference d = compare(train({1, 1, 1}, {}), train(shape, faults));
    fmt::print("# {}\n", describe(d));
    return d;
  }

 private:
  ScratchDirectory folder_;
  int runs_ = 0;
};

TEST_F(PlantedFaults, AreAbsentFromACleanRun) {
  EXPECT_TRUE(within_limits(difference({2, 2, 2}, {})));
}

TEST_F(PlantedFaults, DroppedAllReduceIsSeen) {
  Faults faults;
  faults.on_tensor = [](Communicator&, Elements, Index n, Stream&) { return n == 5; };
  EXPECT_FALSE(within_limits(difference({1, 1, 2}, faults)));
}

TEST_F(PlantedFaults, AllGradientsDoubledIsSeenThoughTheLossIsBlind) {
  Faults faults;
  faults.on_data = doubled(0, Index{1} << 40);
  const Difference d = difference({2, 1, 1}, faults);
  EXPECT_FALSE(within_limits(d));
  EXPECT_NEAR(d.gradient, 1, 1e-3);
}

// Where the gradient of one parameter lies in the flat buffer of a data parallel rank.
FlatRange flat_range(const std::string& name) {
  Graph graph;
  const Value loss = build_transformer_loss(graph, small_model(), micro_batch);
  const StageCut cut = cut_stages(graph, {loss}, 1);
  const Plan plan(graph, {loss}, cut, 0);
  const FlatLayout flat(graph, cut, {&plan}, {.bucket_bytes = Index{1} << 32, .data_size = 2});
  for (const FlatParameter& parameter : flat.parameters())
    if (graph.parameters()[static_cast<std::size_t>(parameter.id)].name() == name)
      return parameter.range;
  throw Error(str("no parameter ", name));
}

TEST_F(PlantedFaults, OneNormsGradientDoubledIsSeen) {
  const FlatRange norm = flat_range("block.1.mlp_norm.weight");
  Faults faults;
  faults.on_data = doubled(norm.begin, norm.end());
  const Difference d = difference({2, 1, 1}, faults);
  EXPECT_FALSE(within_limits(d));
  EXPECT_EQ(d.worst_gradient, "block.1.mlp_norm.weight");
}

TEST_F(PlantedFaults, TiedEmbeddingCountedOnceIsSeen) {
  Faults faults;
  faults.on_ties = [](Communicator&, Elements, Index, Stream&) { return true; };
  const Difference d = difference({1, 2, 1}, faults);
  EXPECT_FALSE(within_limits(d));
  EXPECT_EQ(d.worst_gradient, "embedding.weight");
}

// A comparison with NaN is false, so a search for the largest difference must not pass over it.
TEST(LayoutComparison, SeesWhatIsNoNumber) {
  const TrainingRun good{{{4, 2}}, {{{"w", {1, 2}}}}, {{{"w", {3, 4}}}}};
  EXPECT_TRUE(within_limits(compare(good, good)));
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<TrainingRun> wrong(4, good);
  wrong[0].steps[0].loss = nan;
  wrong[1].steps[0].grad_norm = nan;
  wrong[2].gradients.tensors["w"][1] = nan;
  wrong[3].parameters.tensors["w"][1] = nan;
  for (const TrainingRun& run : wrong)
    EXPECT_FALSE(within_limits(compare(good, run))) << describe(compare(good, run));
}

}  // namespace
}  // namespace trireme::test
