// The loss over all tokens of some data, without anything that only training needs.
#include "trireme/train/evaluation.h"

#include <cmath>
#include <fstream>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/models/transformer.h"
#include "trireme/rank_plan/training_spec.h"

#include "runtime/data/prepare/sidecar.h"
#include "runtime/rank_plan/planned_training.h"
#include "runtime/train/sinks/metrics_file.h"
#include "tests/support/message_of.h"
#include "tests/support/recording_mesh.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TransformerConfig config() {
  TransformerConfig config = preset("tiny");
  config.num_layers = 4;
  config.hidden_size = 32;
  config.num_attention_heads = 4;
  config.seq_length = config.max_position_embeddings = 16;
  config.vocab_size = 61;
  return config;
}

Model evaluated_model(Index batch) {
  return Model([=](Graph& g) { return build_transformer_loss(g, config(), batch); });
}

Options options_of(const Layout& layout) {
  Options options = options_for(layout);
  options.tensor_size = layout.tensor;
  options.pipeline_size = layout.pipeline;
  options.forward_only = true;
  options.train_iters = 0;
  return options;
}

/// A file of tokens that no shorter period describes. `bytes`: of their text; 0: without a sidecar.
std::string tokens_file(const ScratchDirectory& folder, const std::string& name, Index count,
                        Index bytes = 0) {
  TokenFileWriter writer(folder / name, TokenType::u8);
  std::vector<std::int64_t> tokens;
  const Random random = random_for(7, name);
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<Index>(random.bits(i) % 61));
  writer.add(tokens);
  writer.end_document();
  Sidecar sidecar;
  sidecar.tokenizer = "00aa";
  sidecar.vocabulary = 61;
  sidecar.documents = 1;
  sidecar.tokens = count;
  sidecar.text_bytes = bytes;
  writer.finish(bytes == 0 ? "" : data::text_of(sidecar));
  return folder / name;
}

std::vector<SweptPart> open(const std::vector<WeightedPath>& paths) {
  return open_swept_parts(paths, parse_split("0,1"), Part::valid,
                          {config().seq_length, config().vocab_size, 1});
}

std::vector<EvaluationMetrics> evaluate(const Layout& layout,
                                        const std::vector<WeightedPath>& paths,
                                        const std::string& metrics = "") {
  std::vector<EvaluationMetrics> found;
  std::mutex mutex;
  Options options = options_of(layout);
  options.metrics = metrics;
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, evaluated_model(layout.micro_batch));
    trainer.load_parameters();
    auto mine = evaluate_parts(context, trainer, open(paths));
    const std::lock_guard lock(mutex);
    found = std::move(mine);
  });
  return found;
}

/// One sample of a sweep.
class Only final : public DataSource {
 public:
  Only(TokenSweep& sweep, Index sample) : sweep_(sweep), sample_(sample) {}
  Index fill(Index, std::span<const Tensor> out) override {
    return targets = sweep_.fill(sample_, out);
  }
  Index targets = 0;

 private:
  TokenSweep& sweep_;
  Index sample_;
};

/// The mean over samples that a trainer evaluates one at a time.
double mean_of_samples(const std::string& prefix) {
  double sum = 0;
  Layout one;
  Options options = options_of(one);
  options.global_batch_size = 1;
  on_ranks(one, options, [&](Context& context) {
    Trainer trainer(context, evaluated_model(1));
    trainer.load_parameters();
    const auto parts = open({{1, prefix}});
    for (Index sample = 0; sample < parts[0].source->samples(); ++sample) {
      Only only(*parts[0].source, sample);
      const double mean = trainer.evaluate(only, 1);
      sum += mean * static_cast<double>(only.targets);
    }
    sum /= static_cast<double>(parts[0].source->targets());
  });
  return sum;
}

constexpr Layout evaluated_layouts[] = {{},
                                        {.tensor = 2},
                                        {.pipeline = 2},
                                        {.data = 2},
                                        {.pipeline = 2, .chunks = 2},
                                        {.data = 2, .tensor = 2, .micro_batch = 2, .zero = true}};

TEST(Evaluation, IsTheMeanOverEachTargetOnEveryLayout) {
  const ScratchDirectory folder;
  const std::string prefix = tokens_file(folder, "a", 333);  // 20 samples of 16, and 12 targets
  const double expected = mean_of_samples(prefix);
  for (const Layout& layout : evaluated_layouts) {
    const auto found = evaluate(layout, {{1, prefix}});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].targets, 332);
    EXPECT_NEAR(found[0].loss, expected, 2e-7 * expected) << testing::PrintToString(layout);
    EXPECT_DOUBLE_EQ(found[0].perplexity(), std::exp(found[0].loss));
  }
}

TEST(Evaluation, OfABlendIsOfEachFileAndByWeight) {
  const ScratchDirectory folder;
  const std::string a = tokens_file(folder, "a", 40), b = tokens_file(folder, "{b}", 90);
  const std::string metrics = folder / "metrics.jsonl";
  const auto found = evaluate({.data = 2}, {{1, a}, {3, b}}, metrics);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NEAR(found[1].loss, mean_of_samples(b), 1e-6);
  EXPECT_DOUBLE_EQ(found[2].loss, (found[0].loss + 3 * found[1].loss) / 4);
  EXPECT_EQ(found[2].targets, 39 + 89);
  std::ifstream lines(metrics);
  for (const EvaluationMetrics& expected : found) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const nlohmann::json json = nlohmann::json::parse(line);
    EXPECT_THAT(line, HasSubstr("{\"step\":0,\"evaluated\":\""));
    EXPECT_EQ(json["evaluated"], expected.source);
    EXPECT_EQ(json["targets"], expected.targets);
    EXPECT_EQ(json["valid_loss"].get<double>(), expected.loss);
    EXPECT_EQ(json["perplexity"].get<double>(), expected.perplexity());
  }
  train::MetricsFile(metrics).go_back_to(0);  // lines of evaluations are known
}

/// The blend's are the bits of a text drawn from it over its bytes.
TEST(Evaluation, HasBitsPerByteWhereTheBytesAreKnown) {
  const ScratchDirectory folder;
  const std::string a = tokens_file(folder, "a", 40, 80), b = tokens_file(folder, "b", 40, 200),
                    none = tokens_file(folder, "none", 40);
  const auto found = evaluate({}, {{1, a}, {3, b}});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_DOUBLE_EQ(found[0].bits_per_byte().value(), found[0].loss / std::log(2) / 2);
  EXPECT_DOUBLE_EQ(found[1].bits_per_byte().value(), found[1].loss / std::log(2) / 5);
  const double bits = (found[0].loss + 3 * found[1].loss) / std::log(2), bytes = 2 + 3 * 5;
  EXPECT_DOUBLE_EQ(found[2].bits_per_byte().value(), bits / bytes);
  const auto unknown = evaluate({}, {{1, a}, {1, none}});
  EXPECT_TRUE(unknown[0].bits_per_byte());
  EXPECT_FALSE(unknown[1].bits_per_byte() || unknown[2].bits_per_byte());
}

/// Nothing that only training needs is planned, and what is planned is what is allocated.
TEST(Evaluation, TakesParametersOfTheComputeTypeAndActivationsAlone) {
  for (const bool bf16 : {false, true})
    for (const bool zero : {false, true}) {
      Layout layout{.data = 2, .tensor = 2, .zero = zero, .bf16 = bf16};
      const Options options = options_of(layout);
      const MeshShape shape(2, 1, 2);
      std::vector<Index> planned;
      for (int rank = 0; rank < shape.size(); ++rank) {
        const PlannedTraining plan(evaluated_model(1), training_spec(options, shape), rank,
                                   cpu_traits());
        const MemoryNeed need = plan.memory_need();
        EXPECT_EQ(need.parameters, plan.flat.count() * (bf16 ? 2 : 4));
        EXPECT_EQ(need.gradients, 0);
        EXPECT_EQ(need.optimizer, 0);
        EXPECT_EQ(need.checks, 0);
        EXPECT_EQ(need.activations, plan.evaluate.bytes());
        planned.push_back(need.arena());
      }
      run_on_threads(shape, [&](Mesh& ranks) {
        RecordingMesh mesh(ranks);
        const std::unique_ptr<Device> device = open_cpu();
        const std::unique_ptr<Stream> stream = device->make_stream();
        const Log log(mesh.rank(), LogLevel::quiet);
        Context context(options, mesh, *stream, log);
        const Trainer trainer(context, evaluated_model(1));
        EXPECT_EQ(mesh.allocated,
                  (std::vector<Index>{planned[static_cast<std::size_t>(mesh.rank())]}));
      });
    }
}

/// The parameters are those of a trainer that has masters, rounded.
TEST(Evaluation, InBf16IsThatOfATrainerWithMasters) {
  const ScratchDirectory folder;
  const auto parts = open({{1, tokens_file(folder, "a", 333)}});
  for (const bool zero : {false, true}) {
    const Layout layout{.data = 2, .zero = zero, .bf16 = true};
    double losses[2] = {};
    for (const bool forward_only : {false, true}) {
      Options options = options_of(layout);
      options.forward_only = forward_only;
      on_ranks(layout, options, [&](Context& context) {
        Trainer trainer(context, evaluated_model(1));
        trainer.load_parameters();
        const double loss = evaluate_parts(context, trainer, parts).front().loss;
        if (context.mesh().rank() == 0) losses[forward_only ? 1 : 0] = loss;
      });
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_GT(losses[0], 1);
  }
}

/// Nodes may have other files under the same name.
TEST(Evaluation, OfOtherDataOnARankIsRefused) {
  const ScratchDirectory folder;
  const std::string prefixes[] = {tokens_file(folder, "a", 333), tokens_file(folder, "b", 333)};
  const Layout layout{.data = 2};
  on_ranks(layout, options_of(layout), [&](Context& context) {
    Trainer trainer(context, evaluated_model(1));
    trainer.load_parameters();
    const int rank = context.mesh().rank();
    EXPECT_THAT(message_of([&] {
                  evaluate_parts(context, trainer, open({{1, prefixes[rank]}}));
                }),
                HasSubstr("data of evaluate: content must be the same on all ranks"));
  });
}

TEST(Evaluation, ATrainerOfForwardPassesCannotTrain) {
  on_ranks({}, options_of({}), [&](Context& context) {
    Trainer trainer(context, evaluated_model(1));
    Sines any;
    EXPECT_THAT(message_of([&] { trainer.step(any); }), HasSubstr("it cannot train"));
    EXPECT_THAT(message_of([&] { trainer.fit(any); }), HasSubstr("it cannot train"));
  });
}

TEST(Evaluation, StopsAtASignal) {
  const ScratchDirectory folder;
  const auto parts = open({{1, tokens_file(folder, "a", 333)}});
  run_on_threads(MeshShape(1, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    const Options options = options_of({});
    Context context(options, mesh, *stream, log, {}, [] { return "SIGTERM"; });
    Trainer trainer(context, evaluated_model(1));
    trainer.load_parameters();
    EXPECT_THROW(evaluate_parts(context, trainer, parts), Stopped);
  });
}

}  // namespace
}  // namespace trireme
