#include "launch/preflight/training_steps.h"

#include <cstdint>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/random.h"
#include "trireme/data/source.h"
#include "trireme/job/run.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "runtime/store/checksum.h"

namespace trireme::preflight {
namespace {

/// Tokens in an order that is learned a little: the next one depends on the one before.
class InventedText final : public DataSource {
 public:
  explicit InventedText(const TransformerConfig& model) : model_(model) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(1, "preflight text");
    const auto token = [&](Index i) {
      const auto drawn = static_cast<Index>(random.bits(sample * model_.seq_length + i / 2));
      return static_cast<std::int32_t>((drawn + i % 2) % model_.vocab_size);
    };
    for (Index i = 0; i < model_.seq_length; ++i) {
      if (out[0].data != nullptr) out[0].as<std::int32_t>()[i] = token(i);
      if (out[1].data != nullptr) out[1].as<std::int32_t>()[i] = token(i + 1);
    }
    return model_.seq_length;
  }

 private:
  const TransformerConfig& model_;
};

}  // namespace

std::string bits_of_training(Mesh& mesh, Stream& stream, const Host& host) {
  constexpr int steps = 3;
  const TransformerConfig config = preset("tiny");
  Options options;
  options.global_batch_size = 1;
  options.train_iters = options.learning_rate.decay_iters = steps;
  options.log_level = LogLevel::quiet;
  const Log log(0, LogLevel::quiet);
  Context context(options, mesh, stream, host, log);
  Model model([&](Graph& graph) {
    return build_transformer_loss(graph, config, options.micro_batch_size);
  });
  model.identity = config.identity();
  Trainer trainer(context, model);
  InventedText text(config);
  std::vector<double> results;
  for (int step = 0; step < steps; ++step) {
    const StepMetrics metrics = trainer.step(text);
    require(!metrics.skipped, "the gradients of step ", step + 1, " are not finite");
    results.insert(results.end(), {metrics.loss, metrics.grad_norm});
  }
  return to_text(checksum(results.data(), std::ssize(results) * Index{sizeof(double)}));
}

}  // namespace trireme::preflight
